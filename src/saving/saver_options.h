// The options of a CheckpointSaver: checks them, and makes names from them.
#pragma once

#include <string>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {
class State;
}  // namespace cairn

namespace cairn {

// Fills in the store and the folder, and removes empty names. Throws UsageError or UnsupportedError
// for invalid options.
CheckpointSaverOptions checked_options(CheckpointSaverOptions options);

// Throws UsageError for invalid names, with the values of `dist`.
void check_names(const CheckpointSaverOptions& options, const FormatVariables& dist);

// Throws UsageError if a folder or a run's name is not UTF-8: a checkpoint holds both as text.
void check_is_text(const ObjectStore& store, const std::string& folder,
                   const std::string& run_name);

inline bool is_far(const CheckpointSaverOptions& options) { return options.store->may_be_far(); }
// How many checkpoints the folder keeps; -1: all.
inline int checkpoints_to_keep(const CheckpointSaverOptions& options) {
  const auto keep =
      is_far(options) ? options.num_remote_checkpoints_to_keep : options.num_checkpoints_to_keep;
  return keep.value_or(-1);
}

// save_folder() returns this rank's folder. writers_folder() returns rank 0's folder if other ranks
// have parts of rank 0's checkpoints.
std::string save_folder(const CheckpointSaverOptions& options, const State& state);
std::string writers_folder(const CheckpointSaverOptions& options, const State& state);
// name_now() makes a name from a format of `options` at this moment. save_path() returns the path
// of a save at this moment, link_path() the path of the link after that save. Empty if there is no
// link.
std::string name_now(const std::string& format, const State& state);
std::string save_path(const CheckpointSaverOptions& options, const State& state);
std::string link_path(const CheckpointSaverOptions& options, const State& state);

}  // namespace cairn
