// The form of a run's checkpoints: one file (the default), a folder that all ranks write, or one
// tar per rank. The Trainer sets it at construction. Also what a checkpoint holds that is no state
// of training: the options, and the generators of a loaded checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cairn/train/state.h"
#include "cairn/value.h"

namespace cairn {

struct State::CheckpointForm {
  // For folders that all ranks write (FSDPConfig::state_dict_type "sharded"): the format of their
  // names. Empty: the checkpoints are not such folders.
  std::string sharded_ckpt_prefix_dir;
  // For one tar per rank (TrainerOptions::deepspeed_config): the requested ZeRO stage, 0 to 3.
  // nullopt: not requested.
  std::optional<std::int64_t> deepspeed_stage;
  // For checkpoints of cairn::Checkpoints: makes the dict to save. `rng`: the generators of all
  // ranks. Empty: the checkpoints hold this State.
  std::function<Value(Value rng)> content;
  // The Trainer's options, as texts by name, for people and tools. Empty without a Trainer.
  Dict options;
  // The "rng" list of the loaded checkpoint, this rank's entry first. fit() restores this list.
  // Until time advances, a save writes this list instead of the generators of this process.
  std::optional<Value> pending_rng;

  static CheckpointForm& of(State& state) { return *state.checkpoint_form_; }
  static const CheckpointForm& of(const State& state) { return *state.checkpoint_form_; }
};

}  // namespace cairn
