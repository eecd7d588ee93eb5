// Autoresume: which checkpoint the run goes on from (spec: Composer's Trainer, autoresume=True).
//
//  1. A run name, a save folder, a latest name and a saver of the whole state are required: without
//     any of them a restarted job could not find its own files, or go on from them. With several
//     savers it goes by the first that saves the whole state.
//  2. That saver's folder is looked into, and, when it is on this machine, every place that a
//     logger uploads its checkpoints to. Of what is found the furthest in training wins, so that a
//     file that was left here never beats a newer one that is far away; of equal ones the one here.
//     A place that cannot be asked ends the start: nobody knows what it has. In one that is far
//     away the pointer is asked first, and nothing is listed when it is good.
//  3. In a place the newest checkpoint that is this run's, by its run_name, wins, when its
//     structure is whole and every byte proves good while it is loaded; otherwise the next one.
//     Each one that is passed over is logged with the reason, those of other runs in one line, and
//     none is deleted. What cannot be read now ends the start (checkpoint/folder/find_latest.cpp
//     says what is what). When all that is there under names that this run would write is of other
//     runs, the start is refused: beginning beside them would write over them.
//  4. When there is one, it replaces load_path, and the options that were meant for the first
//     start (load_weights_only, load_ignore_keys, load_exclude_algorithms) are reset. Only
//     load_strict_model_weights stays.
//  5. Otherwise load_path with its options is loaded, or training starts fresh.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  // That autoresume passes over: where they are, and their paths there.
  std::vector<std::pair<std::shared_ptr<ObjectStore>, std::string>> except = {};
  bool resumed = false;  // load_path was found by autoresume: a finished run is no error then
};

// The plan of the options themselves.
LoadPlan load_plan(const TrainerOptions& options);

// UsageError listing what autoresume lacks. `first` is the first saver, `whole` the first of the
// whole state; null where there is none.
void check_autoresume(const std::optional<std::string>& run_name, const CheckpointSaver* first,
                      const CheckpointSaver* whole);

// Steps 2 to 4. `saver` is the first of the whole state. StorageError when the folder cannot be
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
