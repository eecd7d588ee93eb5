// Autoresume: which checkpoint the run goes on from (spec: Composer's Trainer, autoresume=True).
//
//  1. A run name, a save folder and a latest name are required: without any of them a restarted
//     job could not find its own files.
//  2. The newest checkpoint of the reference saver's folder that verifies in full wins; each one
//     that is passed over is logged with the reason, and none is deleted.
//  3. When there is one, it replaces load_path, and the options that were meant for the first
//     start (load_weights_only, load_ignore_keys, load_exclude_algorithms) are reset. Only
//     load_strict_model_weights stays.
//  4. Otherwise load_path with its options is loaded, or training starts fresh.
#pragma once

#include <optional>
#include <string>

#include "cairn/train/options.h"

namespace cairn {

class CheckpointSaver;
class FileSystem;
class Logger;
class State;

// What is to be loaded and how: filled from TrainerOptions, changed by apply_autoresume().
struct LoadPlan {
  std::optional<std::string> load_path = std::nullopt;
  bool load_weights_only = false;
  bool load_strict_model_weights = true;
  IgnoreKeys load_ignore_keys = {};
  std::vector<std::string> load_exclude_algorithms = {};
  bool resumed = false;  // load_path was found by autoresume: a finished run is no error then
};

// The plan of the options themselves.
LoadPlan load_plan(const TrainerOptions& options);

// UsageError listing what autoresume lacks. `saver` is the reference saver, or null.
void check_autoresume(const std::optional<std::string>& run_name, const CheckpointSaver* saver);

// Steps 2 and 3. `saver` is the reference saver. StorageError when the folder cannot be read: then
// nobody knows whether there is a checkpoint, and starting over would be wrong.
void apply_autoresume(LoadPlan& plan, const std::string& run_name, const CheckpointSaver& saver,
                      Logger& logger, FileSystem* files = nullptr);

// Loads the plan's checkpoint into `state` (run_name stays the current one; {run_name}, {rank} in
// the path are filled in) and logs which and the position. Returns the "rng" entry, to be restored
// when fit() is at the position; nullopt when there is none.
std::optional<Value> load_planned(const LoadPlan& plan, State& state, Logger& logger);

}  // namespace cairn
