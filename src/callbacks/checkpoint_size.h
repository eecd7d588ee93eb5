// How large a checkpoint of a run will be, before there is one.
#pragma once

#include <cstdint>

namespace cairn {

class State;

// Bytes of tensors that a checkpoint written from this process holds at least: the model, and, with
// the whole state, the optimizer's state as it will be after the first step. Optional parts of that
// state, and optimizers without a layout, count as nothing. Reads no element.
std::uint64_t least_checkpoint_bytes(const State& state, bool weights_only);

}  // namespace cairn
