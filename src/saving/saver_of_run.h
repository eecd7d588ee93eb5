// The calls of a saver that only a Trainer makes.
#pragma once

#include <optional>
#include <string>

#include "cairn/callbacks/checkpoint_saver.h"

namespace cairn {

struct CheckpointSaver::OfRun {
  // Whether, from now on, checkpoints of the run itself, by its run_name, that are further in
  // training are no conflict when a fit() starts, but are written again. A Trainer with autoresume
  // says so when it is made: the command that is started again goes on from before them.
  static void rewrite_own_files(CheckpointSaver& saver, bool may);
  // The run goes on from the checkpoint at `path`, of which this machine has some parts and others
  // the rest; empty: from one that is whole. No other one that lacks parts here then counts as
  // saved. To be called before after_load.
  static void set_loaded_checkpoint(CheckpointSaver& saver, const std::string& path);
  // The link to the newest checkpoint, as init() found it in a store that is far away, so that the
  // store is not asked twice. nullopt: there is none, or it was not looked at.
  static std::optional<Pointer> seen_latest(const CheckpointSaver& saver, const State& state);
  // After fit_end, when the loggers have waited for their uploads. A saver that keeps nothing here
  // then removes the files that they have.
  static void loggers_are_done(CheckpointSaver& saver, Logger& logger);
  // The options that the constructor was given. In a run whose ranks save together, options() has
  // other names.
  static const CheckpointSaverOptions& given_options(const CheckpointSaver& saver);
};

}  // namespace cairn
