// The calls of a saver that only a Trainer makes.
#pragma once

#include <optional>
#include <string>

#include "cairn/callbacks/checkpoint_saver.h"

namespace cairn {

struct CheckpointSaver::TrainerCalls {
  // If true, fit() may overwrite later checkpoints of this run (by run_name) instead of refusing to
  // start. A Trainer with autoresume sets this when it is made: a restarted run resumes from before
  // them.
  static void rewrite_own_files(CheckpointSaver& saver, bool may);
  // Call it before after_load(). The run resumes from the checkpoint at `path`, of which this
  // machine has some parts and other machines the rest. Empty: from a whole checkpoint. No other
  // checkpoint of which this machine lacks parts then counts as saved.
  static void set_loaded_checkpoint(CheckpointSaver& saver, const std::string& path);
  // The link to the newest checkpoint, as init() found it in a far store, so that the store is not
  // asked twice. nullopt: there is none, or it was not read.
  static std::optional<Pointer> seen_latest(const CheckpointSaver& saver, const State& state);
  // Call it after fit_end, when the loggers have waited for their uploads. A saver that keeps no
  // files on this machine then removes the uploaded files.
  static void after_uploads(CheckpointSaver& saver, Logger& logger);
  // Collective. For a loop without evaluators: the value of keep_best's metric at state.timestamp.
  static void note_metric(CheckpointSaver& saver, const State& state, double value);
  // The constructor's options. In a run whose ranks save together, options() has other names.
  static const CheckpointSaverOptions& given_options(const CheckpointSaver& saver);
};

}  // namespace cairn
