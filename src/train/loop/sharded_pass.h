// The model of a sharded run at work, as long as this lives (ShardedModule::begin() and end()).
#pragma once

#include <algorithm>
#include <exception>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"

#include "train/loop/loop_context.h"

namespace cairn {

class ShardedPass {
 public:
  explicit ShardedPass(const State& state) : sharding_(state.sharding.get()) {
    if (sharding_ != nullptr) sharding_->begin();
  }
  ~ShardedPass() {
    try {
      end();
    } catch (const std::exception&) {  // behind an error, which says more
    }
  }
  ShardedPass(const ShardedPass&) = delete;
  ShardedPass& operator=(const ShardedPass&) = delete;

  // DistError.
  void end() {
    if (sharding_ != nullptr) std::exchange(sharding_, nullptr)->end();
  }

 private:
  ShardedModule* sharding_;
};

// A sharded model computes on all ranks together. Before this one's `own` passes: how many more
// others have, which it takes part in behind them (take_part_in()). 0 of what is not sharded.
inline std::int64_t passes_of_others(const State& state, std::int64_t own) {
  if (state.sharding == nullptr) return 0;
  at::Tensor most = at::full({1}, own, at::kLong);
  dist::all_reduce(most, dist::ReduceOp::kMax);
  return most.item<std::int64_t>() - own;
}
inline void take_part_in(const State& state, std::int64_t passes, bool with_backward) {
  for (std::int64_t i = 0; i < passes; ++i)
    state.sharding->repeat_for_others(with_backward);
}

}  // namespace cairn
