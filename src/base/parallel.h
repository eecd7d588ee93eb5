// Independent pieces of work on all cores.
#pragma once

#include <cstddef>
#include <functional>

namespace cairn {

// Calls work(i) once for every i below `count`, in any order, from as many threads as there are
// cores, this one among them; returns when all are done. When a call throws, no further ones are
// started, and the exception (of several, one) is thrown here.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace cairn
