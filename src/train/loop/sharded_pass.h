// Keeps the model of a sharded run in a pass while this object lives (ShardedModule::begin() and
// end()).
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
    } catch (const std::exception&) {  // An earlier error says more.
    }
  }
  ShardedPass(const ShardedPass&) = delete;
  ShardedPass& operator=(const ShardedPass&) = delete;

  // Throws DistError.
  void end() {
    if (sharding_ != nullptr) std::exchange(sharding_, nullptr)->end();
  }

 private:
  ShardedModule* sharding_;
};

// A sharded model computes on all ranks together. Call this before this rank's `own` passes.
// Returns how many passes more than `own` the rank with the most passes does. After its own passes,
// this rank joins those further passes (repeat_passes()). Returns 0 if the model is not sharded.
inline std::int64_t passes_of_others(const State& state, std::int64_t own) {
  if (state.sharding == nullptr) return 0;
  at::Tensor most = at::full({1}, own, at::kLong);
  dist::all_reduce(most, dist::ReduceOp::kMax);
  return most.item<std::int64_t>() - own;
}
inline void repeat_passes(const State& state, std::int64_t passes, bool with_backward) {
  for (std::int64_t i = 0; i < passes; ++i)
    state.sharding->replay_communication(with_backward);
}

}  // namespace cairn
