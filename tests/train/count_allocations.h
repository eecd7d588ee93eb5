// How often `operator new` was called in a program that has state_gatherer_test.cpp, which replaces
// it.
#pragma once

#include <cstddef>

namespace cairn {

std::size_t allocations_so_far();

}  // namespace cairn
