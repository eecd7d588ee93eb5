// Counts calls of `operator new`. The program must contain state_gatherer_test.cpp, which replaces
// the operator.
#pragma once

#include <cstddef>

namespace cairn {

std::size_t allocations_so_far();

}  // namespace cairn
