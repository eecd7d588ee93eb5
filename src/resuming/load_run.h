// Loads one checkpoint into a run, on all ranks alike.
//
//  1. The checkpoint is opened through patient_store(), and read from NodeCopy::nearest().
//  2. load_for_run() loads it on this rank.
//  3. load_together() tells all ranks how the load ended on each. The caller decides what follows:
//     load_path ends the start; autoresume may look for another checkpoint.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cairn/error.h"
#include "cairn/export.h"
#include "cairn/train/options.h"
#include "cairn/value.h"

#include "resuming/load_progress.h"
#include "resuming/node_copy.h"

namespace CAIRN_PUBLIC cairn {
class Logger;
class State;
}  // namespace cairn

namespace cairn {

struct LoadJob;

// The result of a start's load.
struct LoadOutcome {
  // The "rng" entry, to be restored when fit() is at the position. nullopt if there is none.
  std::optional<Value> rng = std::nullopt;
  bool is_loaded = false;  // False: nothing had to be loaded.
  // The checkpoint that autoresume found. Empty if load_path named it or nothing was loaded. If not
  // empty, a run that is already at its end is no error.
  std::string resumed_from = {};
  // The path of the checkpoint on this rank, if machines have parts of it (joint_checkpoints.h).
  std::string path_of_parts = {};
};

// An error of another rank, thrown on this rank.
class RankError : public StorageError {
 public:
  explicit RankError(const std::string& message) : StorageError(message, 0) {}
};

// How a load ended on one rank.
struct RankOutcome {
  enum Kind { kOk, kBadFile, kFailed };  // A worse outcome is a greater value.
  Kind kind = kOk;
  std::string why = {};
};

// How the load ended on all ranks: the worst of their outcomes, and the first rank that has it.
struct AgreedOutcome {
  RankOutcome outcome = {};
  std::int64_t rank = 0;
  bool is_ok_anywhere = false;
};

// The result of all ranks' attempt to load a checkpoint.
struct TriedLoad {
  LoadOutcome outcome = {};  // This rank's, if it loaded the checkpoint.
  RankOutcome own = {};
  std::exception_ptr error = nullptr;  // This rank's, if it failed.
  AgreedOutcome agreed = {};

  bool is_ok() const { return agreed.outcome.kind == RankOutcome::kOk; }
  // The error to throw on a rank that has no error of its own.
  RankError error_of_rank(const std::string& path) const;
};

// Whether an error of a load says that the file is bad, so that another checkpoint may be better.
bool is_fault_of_file(const Error& error);

// Collective. Finds out how the load ended over all ranks.
AgreedOutcome agree_on_outcome(const RankOutcome& own);

// Collective. Calls `load`, and tells the other ranks how it ended. `where` precedes the error
// message that the other ranks get. Throws DistError.
TriedLoad load_together(const std::function<LoadOutcome()>& load, const std::string& where = "");

// "epoch 3, batch 1200".
std::string position_text(const Timestamp& timestamp);

// Loads `nearest`, which is `job` or a copy of it, and logs the position. `state` keeps its
// run_name. If the checkpoint is another run's, the savers forget its list of saves.
LoadOutcome load_for_run(const LoadJob& job, const LoadJob& nearest, State& state,
                         LoadProgress& progress, Logger& logger);

// Collective. Makes a copy of the checkpoint for the processes of this machine. Shows a bar while
// copying.
NodeCopy copy_for_node(const LoadJob& job, const State& state, LoadProgress& progress,
                       Logger& logger);

// Progress as load_progress_bar and load_chunk_size say.
LoadProgress progress_of(const TrainerOptions& options);

// How long a start repeats failed requests, and the name of the option that says so.
struct StorePatience {
  std::chrono::seconds time;
  const char* option;
};
// The store as a start uses it: it repeats failed requests, and logs a line for each retry.
std::shared_ptr<ObjectStore> patient_store(std::shared_ptr<ObjectStore> store,
                                           const StorePatience& patience, Logger& logger);

// CheckpointSource::content() of the checkpoint that this rank opened. "" if it opened none.
std::string content_of(const LoadJob& job);

// A checkpoint's "rng" list has an entry for each rank. Returns a list with only this rank's entry,
// or nullopt if the list has no entry for this rank.
std::optional<Value> rng_of_rank(std::optional<Value> states);

}  // namespace cairn
