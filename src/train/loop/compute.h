// How many threads the process computes with, and with what.
#pragma once

#include <optional>
#include <string>

namespace cairn {

// `processors` are those that the process may use, machine_limits().cpus; `usual` is the number
// that libtorch starts with, by default what it says (one for each core of the machine). Where
// nobody chose a number: no more threads than processors that the control group gives
// (OMP_NUM_THREADS and torch::set_num_threads() choose), and one thread for a BLAS with a pool of
// its own beside OpenMP's (OPENBLAS_NUM_THREADS and BLIS_NUM_THREADS choose). Two pools that wait
// for work by spinning make two threads slower than one.
//
// Returns what a run's first line says: the BLAS, the threads, the processors; beginning with
// "warning: " when the BLAS is the slow one.
std::string set_up_threads(double processors, std::optional<int> usual = std::nullopt);

}  // namespace cairn
