// Counts calls of `operator new`, in a program that contains state_gatherer_test.cpp. That file
// replaces the operator.
#pragma once

#include <cstddef>

namespace cairn {

std::size_t allocations_so_far();

}  // namespace cairn
