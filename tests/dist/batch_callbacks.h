// Callbacks of dist_program that look at a batch, or act in one.
#pragma once

#include <torch/torch.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cairn/dist/dist.h"
#include "cairn/train/callback.h"
#include "cairn/train/event.h"
#include "cairn/train/state.h"

#include "arguments.h"

// The event that has this name.
inline cairn::Event event_of(const std::string& wanted) {
  for (int i = 0; i < cairn::kNumEvents; ++i) {
    if (cairn::name(static_cast<cairn::Event>(i)) == wanted) return static_cast<cairn::Event>(i);
  }
  throw std::runtime_error("no event is named " + wanted);
}

// Keeps the gradients of each batch, and fails if the next batch changes them.
class KeepsGradients final : public cairn::Callback {
 public:
  std::string name() const override { return "KeepsGradients"; }
  void after_train_batch(cairn::State& state, cairn::Logger& /*logger*/) override {
    for (const auto& [gradient, copy] : kept_)
      demand(gradient.equal(copy), "the gradients of the last batch");
    kept_.clear();
    for (const at::Tensor& parameter : state.model->module().parameters()) {
      if (!parameter.grad().defined()) continue;
      kept_.emplace_back(parameter.grad(), parameter.grad().clone());
    }
    // All gradients are in one bucket.
    const bool are_views = kept_.at(0).first.is_alias_of(kept_.at(1).first);
    demand(are_views == (cairn::dist::world_size() > 1), "whether gradients are views");
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};
