// Cuts a batch into parts, of which the device holds one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "train/loop/loop_context.h"

namespace cairn {

struct MicrobatchWork {
  // Called while state.batch is the part, on the device. `share` is the part's share in the total
  // weight, or 1 if there is no `weight`. If all parts weigh nothing, samples count.
  std::function<void(double share)> use;
  // Called for all parts before the first use().
  std::function<double(const Batch& part)> weight = nullptr;
};

// Does `work` for each part of state.batch in turn. Parts have at most `size` samples. The batch is
// not cut if it has no more samples than that, or if `size` is absent. Afterwards state.batch is
// the whole batch again. The model's outputs for a part are dropped before the next part is placed.
void for_each_microbatch(LoopContext& context, std::optional<std::int64_t> size,
                         const MicrobatchWork& work);

// The number of parts that for_each_microbatch() would make.
std::size_t count_microbatches(const LoopContext& context, std::optional<std::int64_t> size);

}  // namespace cairn
