// LayerFreezing: stops training the first layers towards the end of a run (arXiv:1706.04983;
// composer/algorithms/layer_freezing).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"

namespace torch::nn {
class Module;
}

namespace CAIRN_PUBLIC cairn {

struct LayerFreezingOptions {
  double freeze_start = 0.5;  // fraction of the run before anything is frozen
  double freeze_level = 1.0;  // fraction of the layers that are frozen at the end
};

// At the end of each epoch freezes layers by freeze_layers(), more of them the later it is. A
// frozen layer costs no gradients and no optimizer step. Logs layer_freezing/layers_frozen and
// layer_freezing/percentage_frozen. Not for a sharded model: the Trainer throws UnsupportedError.
//
// A resumed run has the frozen layers again, with the same bits. Composer takes frozen parameters
// out of the optimizer and cannot resume reliably; here they stay in it, without gradients.
class LayerFreezing final : public Algorithm {
 public:
  // Throws UsageError for fractions outside of [0, 1].
  explicit LayerFreezing(LayerFreezingOptions options = {});
  explicit LayerFreezing(EmptyBraces)  // LayerFreezing({.freeze_start = 0.5})
      : LayerFreezing(LayerFreezingOptions()) {}
  template <detail::NeverMatches T>
  LayerFreezing(std::initializer_list<T>) = delete;

  std::string name() const override { return "LayerFreezing"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;

  // {"repr", "layers_frozen"}. Composer writes an empty dict, and ignores what it reads.
  Value state_dict() const override;
  // Freezes the layers. After a checkpoint of Composer, none until the end of the epoch.
  void load_state_dict(const Value& saved, const State& live) override;

 private:
  LayerFreezingOptions options_;
  std::int64_t layers_frozen_ = 0;
};

struct FrozenLayers {
  std::int64_t layers;  // how many of the first layers are frozen
  double percentage;    // the share that the schedule asks for, in [0, freeze_level]
};
// Freezes the first layers: their parameters require no gradients from now on, and have none. A
// layer is a module that has parameters and no submodules; the last layer is never frozen. The
// share of layers grows from 0 at freeze_start to freeze_level at 1. `current_duration`: the
// fraction of the run that is done. Layers that are frozen already stay so.
FrozenLayers freeze_layers(torch::nn::Module& module, double current_duration,
                           LayerFreezingOptions options = {});

}  // namespace cairn
