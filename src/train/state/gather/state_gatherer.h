// Gathering the state of a run as a Value, again and again: what did not change since the time
// before is compared, and not made anew. Comparing allocates nothing for a tensor.
//
// What is kept is the Value of the time before, and with it the memory of those tensors: for as
// long as the gatherer lives, or until it gathers again. Nothing is believed that cannot be looked
// at: every tensor of a module is compared, each time, in everything that its view was made from.
#pragma once

#include "cairn/train/state_dict.h"

#include "train/optimizer/optimizer_gatherer.h"
#include "train/state/gather/seen_names.h"
#include "train/state/gather/seen_tensors.h"

namespace cairn {

class WholeState;

class ModuleGatherer {
 public:
  // What state_dict(module) gives; of one identity() with the time before, if that is still what it
  // gives. Throws as that does. One thread at a time.
  Value gather(const torch::nn::Module& module);

 private:
  bool is_unchanged(const torch::nn::Module& module) const;
  bool remember(const torch::nn::Module& module);
  void forget();

  Value known_;  // None: nothing
  SeenTensors tensors_;
  SeenNames names_;
};

class StateGatherer {
 public:
  // What cairn::checkpoint_value() gives, with `rng` for what rng_of_all_ranks() gave; of a sharded
  // run with the tensors of `whole`.
  Value checkpoint_value(const State& state, Value rng, WholeState& whole,
                         const SaveCheckpointOptions& options, Logger* logger);

 private:
  ModuleGatherer model_;
  OptimizerGatherer optimizer_;
};

// State::state_dict() and State::model_state_dict(), with `model` for the state of its module, and
// `optimizer` for that of its optimizer, if it has one.
Value full_state_dict(const State& state, Value model, Value optimizer);
Value weights_state_dict(const State& state, Value model);

}  // namespace cairn
