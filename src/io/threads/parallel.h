// Independent pieces of work on all cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace cairn {

// Calls work(i) once for every i below `count`, in any order, from as many threads as there are
// cores, this one among them; returns when all are done. When a call throws, no further ones are
// started, and the exception (of several, one) is thrown here. What cancels this thread's work
// cancels theirs, and what guards its reads (io/memory/mapped_file.h) guards theirs.
//
// `bytes` is how much there is to look at in all: below 32 MiB, where a second thread costs more
// than it saves, this one does it alone. `least_threads`, where the work is to wait for a disk: so
// many at least, also on fewer cores.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::uint64_t bytes = ~std::uint64_t{0}, unsigned least_threads = 1);

// The same of work that itself calls for_each_parallel(), from `lanes` threads: where the disk, or
// cores, would be idle between one such call and the next. Those calls have their part of the
// threads: together as many as one would have.
void for_each_in_lanes(unsigned lanes, std::size_t count,
                       const std::function<void(std::size_t)>& work);

}  // namespace cairn
