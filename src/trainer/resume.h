// Autoresume: which checkpoint the run goes on from (spec: Composer's Trainer, autoresume=True).
//
//  1. A run name, a save folder, a latest name and a saver of the whole state are required: without
//     any of them a restarted job could not find its own files, or go on from them. With several
//     savers it goes by the first that saves the whole state.
//  2. The newest checkpoint of that saver's folder that is this run's, by its run_name, wins, when
//     its structure is whole and every byte proves good while it is loaded; otherwise the next one.
//     Each one that is passed over is logged with the reason, those of other runs in one line, and
//     none is deleted. What cannot be read now ends the start
//     (checkpoint/folder/find_latest.cpp says what is what). When all that is there under names
//     that this run would write is of other runs, the start is refused: beginning beside them would
//     write over them.
//  3. When there is one, it replaces load_path, and the options that were meant for the first
//     start (load_weights_only, load_ignore_keys, load_exclude_algorithms) are reset. Only
//     load_strict_model_weights stays.
//  4. Otherwise load_path with its options is loaded, or training starts fresh.
#pragma once

#include <optional>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/train/options.h"

namespace cairn {

class CheckpointSaver;
class Logger;
class State;

// What is to be loaded and how: filled from TrainerOptions, changed by apply_autoresume().
struct LoadPlan {
  std::optional<std::string> load_path = std::nullopt;
  std::shared_ptr<ObjectStore> store = nullptr;         // where load_path is
  std::optional<Checkpoint> checkpoint = std::nullopt;  // that of load_path, when it is open
  bool load_weights_only = false;
  bool load_strict_model_weights = true;
  IgnoreKeys load_ignore_keys = {};
  std::vector<std::string> load_exclude_algorithms = {};
  std::vector<std::string> except = {};  // that autoresume passes over
  bool resumed = false;  // load_path was found by autoresume: a finished run is no error then
};

// The plan of the options themselves.
LoadPlan load_plan(const TrainerOptions& options);

// UsageError listing what autoresume lacks. `first` is the first saver, `whole` the first of the
// whole state; null where there is none.
void check_autoresume(const std::optional<std::string>& run_name, const CheckpointSaver* first,
                      const CheckpointSaver* whole);

// Steps 2 and 3. `saver` is the first of the whole state. StorageError when the folder cannot be
// read: then nobody knows whether there is a checkpoint, and starting over would be wrong.
// UsageError when it is another run's.
void apply_autoresume(LoadPlan& plan, const std::string& run_name, const CheckpointSaver& saver,
                      Logger& logger);

// All of the steps: finds, loads, and goes back to step 2 without a checkpoint that turns out to be
// undecodable when it is loaded. When there is no other, and it was the disk that did not give its
// bytes, or somebody wrote into it, its error is thrown: that is no reason to begin again. `plan`
// becomes what was done, its load_path empty when there was nothing to load. Returns as
// load_planned(). MismatchError for a checkpoint that is whole and does not fit: that is no fault
// of the file, and an older one would not fit either.
std::optional<Value> resume_or_load(LoadPlan& plan, State& state, const CheckpointSaver& saver,
                                    Logger& logger);

// Loads the plan's checkpoint into `state` (run_name stays the current one; {run_name}, {rank} in
// the path are filled in) and logs which and the position. Returns the "rng" entry, to be restored
// when fit() is at the position; nullopt when there is none.
std::optional<Value> load_planned(const LoadPlan& plan, State& state, Logger& logger);

}  // namespace cairn
