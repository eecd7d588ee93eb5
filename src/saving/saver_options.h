// The options of a CheckpointSaver: which it accepts, and the names that they make.
#pragma once

#include <string>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"

namespace cairn {

class State;

// With the store and the folder filled in, and empty names left out. UsageError or UnsupportedError
// for what cannot be.
CheckpointSaverOptions checked_options(CheckpointSaverOptions options);

// UsageError for names that cannot be, with the values of `dist`.
void check_names(const CheckpointSaverOptions& options, const FormatVariables& dist);

// UsageError for a folder or a run's name that is no UTF-8: a checkpoint holds both as text.
void check_is_text(const ObjectStore& store, const std::string& folder,
                   const std::string& run_name);

inline bool is_far(const CheckpointSaverOptions& options) { return options.store->may_be_far(); }
// How many checkpoints stay in the folder; -1: all.
inline int keep_of(const CheckpointSaverOptions& options) {
  const auto keep =
      is_far(options) ? options.num_remote_checkpoints_to_keep : options.num_checkpoints_to_keep;
  return keep.value_or(-1);
}

// This rank's folder, and rank 0's, where other ranks have parts of what is in it.
std::string save_folder(const CheckpointSaverOptions& options, const State& state);
std::string writers_folder(const CheckpointSaverOptions& options, const State& state);
// A name of `options` at this moment; the path of a save then, and of the link after it. Empty:
// there is no link.
std::string name_now(const std::string& format, const State& state);
std::string save_path(const CheckpointSaverOptions& options, const State& state);
std::string link_path(const CheckpointSaverOptions& options, const State& state);

}  // namespace cairn
