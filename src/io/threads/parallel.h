// Runs independent pieces of work on all cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace cairn {

// Calls work(i) once for every i below `count`, in any order, on as many threads as there are
// cores, including this one. Returns when all are done. If a call throws, no further calls start,
// and one of the exceptions is thrown here. The other threads share this thread's cancellation, and
// the guard of its reads (io/memory/mapped_file.h).
//
// `bytes` is the total amount of data. Below 32 MiB, where a second thread costs more than it
// saves, this thread works alone. `least_threads` is the least number of threads, even on fewer
// cores, for work that waits for a disk.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::uint64_t bytes = ~std::uint64_t{0}, unsigned least_threads = 1);

// As above for work that itself calls for_each_parallel(), on `lanes` threads. For work where the
// disk or cores would be idle between two such calls. The inner calls share the threads: together
// they have as many as one call would.
void for_each_in_lanes(unsigned lanes, std::size_t count,
                       const std::function<void(std::size_t)>& work);

}  // namespace cairn
