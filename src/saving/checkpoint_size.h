// Estimates the size of a run's checkpoint before there is one.
#pragma once

#include <cstdint>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {
class State;
}  // namespace cairn

namespace cairn {

// Returns the least number of tensor bytes in a checkpoint that this process writes. Counts the
// model and, with the whole state, the optimizer's state as it will be after the first step. Does
// not count optional parts of that state, nor optimizers without a layout. Reads no element.
std::uint64_t least_checkpoint_bytes(const State& state, bool weights_only);

}  // namespace cairn
