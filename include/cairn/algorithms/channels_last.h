// ChannelsLast: stores the weights of convolutions with the channels as the last dimension in
// memory (composer/algorithms/channels_last).
#pragma once

#include <string>

#include "cairn/export.h"
#include "cairn/train/algorithm.h"

namespace torch::nn {
class Module;
}

namespace CAIRN_PUBLIC cairn {

// At Event::kInit converts the model by apply_channels_last(). Convolutions then compute their
// outputs in this order, too, which is faster on most GPUs, and on many processors. The last bits
// of the results differ from those of the usual order.
//
// Checkpoints have the same shapes and names, with other strides, as in Python. A run with
// ChannelsLast loads checkpoints of runs without it, and the other way round. Not for a sharded
// model: the Trainer throws UnsupportedError.
class ChannelsLast final : public Algorithm {
 public:
  std::string name() const override { return "ChannelsLast"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  std::string repr() const override { return "ChannelsLast()"; }
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;
};

// Python's module.to(memory_format=torch.channels_last): copies each parameter and buffer of four
// dimensions into memory of its own, in this order. The tensors stay the same objects, so that an
// optimizer keeps them. Not for views of one memory, since they are then no longer views.
void apply_channels_last(torch::nn::Module& module);

}  // namespace cairn
