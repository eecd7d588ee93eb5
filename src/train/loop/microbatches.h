// A batch in parts, of which the device holds one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "train/loop/loop_context.h"

namespace cairn {

struct MicrobatchWork {
  // Called with state.batch being the part, on the device. `share` is the part's weight in that of
  // all; 1 where there is no weight to ask for. Where all weigh nothing samples count.
  std::function<void(double share)> use;
  std::function<double(const Batch& part)> weight = nullptr;  // before anything is used
};

// Does `work` for each part of state.batch in turn: parts of at most `size` samples, or the batch
// itself when it has no more, or `size` is absent. Afterwards state.batch is the whole again.
// What the model made of the part before is dropped before the next one is placed.
void for_each_microbatch(LoopContext& context, std::optional<std::int64_t> size,
                         const MicrobatchWork& work);

// Into how many parts it would be cut.
std::size_t count_microbatches(const LoopContext& context, std::optional<std::int64_t> size);

}  // namespace cairn
