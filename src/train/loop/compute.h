// Sets how many threads the process computes with, and says with which library it computes.
//
// Threads that compute and threads that load share the processors. OpenMP cuts each operation into
// equal parts, and the operation ends with the last part. A worker on the processor of one of these
// parts makes all other parts wait.
#pragma once

#include <optional>
#include <string>

namespace cairn {

// `processors` are those that the process may use (machine_limits().cpus). `usual` is libtorch's
// initial number of threads; by default the number that libtorch gives (one per core of the
// machine). Unless the user chose a number:
//   - no more threads than the control group gives processors, less one for each of
//     `loader_workers`, and at least one. OMP_NUM_THREADS and torch::set_num_threads() count as a
//     choice; the number of an earlier call of this function does not.
//   - one thread for a BLAS that has its own pool beside OpenMP's. OPENBLAS_NUM_THREADS and
//     BLIS_NUM_THREADS count as a choice. Two pools that spin while they wait for work make two
//     threads slower than one.
//
// Returns the first line of a run: the BLAS, the threads of both kinds, the processors. The line
// begins with "warning: " if the BLAS is the slow one.
std::string set_up_threads(double processors, std::optional<int> usual = std::nullopt,
                           int loader_workers = 0);

}  // namespace cairn
