// What the checkpoints of a run are: one file, a folder that all ranks write, or a tar of each
// rank. The Trainer says it when it is made. The default is one file. And what a save before the
// first batch holds of the checkpoint that was loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cairn/train/state.h"

namespace cairn {

struct State::CheckpointForm {
  // Folders that all ranks write (FSDPConfig::state_dict_type "sharded"): the format of their
  // names. Empty: a checkpoint is no such folder.
  std::string sharded_ckpt_prefix_dir;
  // Tars of each rank (TrainerOptions::deepspeed_config): the ZeRO stage that was asked for, 0
  // to 3. nullopt: none is asked for.
  std::optional<std::int64_t> deepspeed_stage;
  // The "rng" list of the loaded checkpoint, this rank's entry first. fit() restores it; until time
  // moves on a save holds it, in place of the generators of this process.
  std::optional<Value> pending_rng;

  static CheckpointForm& of(State& state) { return *state.checkpoint_form_; }
  static const CheckpointForm& of(const State& state) { return *state.checkpoint_form_; }
};

}  // namespace cairn
