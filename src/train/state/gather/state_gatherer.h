// Gathers the state of a run as a Value, repeatedly. It compares the state with that of the
// previous time, and does not build unchanged parts again. Comparing allocates nothing per tensor.
//
// The gatherer keeps the previous Value, and with it the memory of its tensors, until it gathers
// again or is destroyed. It assumes nothing that it can check: each time it compares every tensor
// of a module in everything that its view was made from.
#pragma once

#include "cairn/train/state_dict.h"

#include "train/optimizer/optimizer_gatherer.h"
#include "train/state/gather/seen_names.h"
#include "train/state/gather/seen_tensors.h"

namespace cairn {

class WholeState;

class ModuleGatherer {
 public:
  // Returns the same as state_dict(module). The result keeps its identity() if nothing changed.
  // Throws as state_dict() does. One thread at a time.
  Value gather(const torch::nn::Module& module);

 private:
  bool is_unchanged(const torch::nn::Module& module) const;
  bool remember(const torch::nn::Module& module);
  void forget();

  Value known_;  // None: nothing is known.
  SeenTensors tensors_;
  SeenNames names_;
};

class StateGatherer {
 public:
  // Returns the same as cairn::checkpoint_value(), with `rng` as the result of rng_of_all_ranks().
  // For a sharded run, uses the tensors of `whole`.
  Value checkpoint_value(const State& state, Value rng, WholeState& whole,
                         const SaveCheckpointOptions& options, Logger* logger);

 private:
  ModuleGatherer model_;
  OptimizerGatherer optimizer_;
};

// State::state_dict() and State::model_state_dict(), with `model` as the state of the module, and
// `optimizer` as the state of the optimizer, if there is one.
Value full_state_dict(const State& state, Value model, Value optimizer);
Value weights_state_dict(const State& state, Value model);

}  // namespace cairn
