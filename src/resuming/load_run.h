// Loads one checkpoint into a run, on all ranks alike.
//
//  1. The checkpoint is opened through patient_store(), and read from NodeCopy::nearest().
//  2. load_for_run() loads it on this rank.
//  3. load_together() tells the ranks how it ended on each. What follows is the caller's: load_path
//     ends the start, autoresume may look for another checkpoint.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cairn/error.h"
#include "cairn/train/options.h"
#include "cairn/value.h"

#include "resuming/load_progress.h"
#include "resuming/node_copy.h"

namespace cairn {

class Logger;
class State;
struct LoadJob;

// What a start has loaded.
struct LoadOutcome {
  // The "rng" entry, to be restored when fit() is at the position; nullopt: there is none.
  std::optional<Value> rng = std::nullopt;
  bool is_loaded = false;  // false: there was nothing to load
  // The checkpoint that autoresume found; empty when load_path named it, or nothing was loaded. If
  // it is not empty, a run that is at its end already is no error.
  std::string resumed_from = {};
  // Where this rank sees the checkpoint, if machines have parts of it (joint_checkpoints.h).
  std::string path_of_parts = {};
};

// An error of another rank, thrown on this one.
class RankError : public StorageError {
 public:
  explicit RankError(const std::string& message) : StorageError(message, 0) {}
};

// How a load ended on one rank.
struct RankOutcome {
  enum Kind { kOk, kBadFile, kFailed };  // the worse ones are greater
  Kind kind = kOk;
  std::string why = {};
};

// How it ended on all: the worst of their outcomes, and the first rank that has it.
struct AgreedOutcome {
  RankOutcome outcome = {};
  std::int64_t rank = 0;
  bool is_ok_anywhere = false;
};

// What became of a checkpoint that all ranks tried to load.
struct TriedLoad {
  LoadOutcome outcome = {};  // of this rank, if it loaded the checkpoint
  RankOutcome own = {};
  std::exception_ptr error = nullptr;  // of this rank, if it did not
  AgreedOutcome agreed = {};

  bool is_ok() const { return agreed.outcome.kind == RankOutcome::kOk; }
  // For a rank that has no error of its own.
  RankError error_of_rank(const std::string& path) const;
};

// Whether an error of a load says that the file is bad, so that another checkpoint may be better.
bool is_fault_of_file(const Error& error);

// Collective.
AgreedOutcome agree_on(const RankOutcome& own);

// Collective. Calls `load`, and tells the others how it ended; `where` stands in front of the error
// that they are told. DistError.
TriedLoad load_together(const std::function<LoadOutcome()>& load, const std::string& where = "");

// "epoch 3, batch 1200".
std::string position_text(const Timestamp& timestamp);

// Loads `nearest`, which is `job` or a copy of it, and logs the position. The state keeps the
// present run's name. If the checkpoint is another run's, the savers forget what they saved.
LoadOutcome load_for_run(const LoadJob& job, const LoadJob& nearest, State& state,
                         LoadProgress& progress, Logger& logger);

// Collective. The copy for the processes of this machine, with a bar while it is made.
NodeCopy copy_for_node(const LoadJob& job, const State& state, LoadProgress& progress,
                       Logger& logger);

// As load_progress_bar and load_chunk_size say.
LoadProgress progress_of(const TrainerOptions& options);

// The store as a start asks it: while it is away, for as long as save_store_patience says, with a
// line for each retry.
std::shared_ptr<ObjectStore> patient_store(std::shared_ptr<ObjectStore> store,
                                           const TrainerOptions& options, Logger& logger);

// CheckpointSource::content() of what this rank opened; empty when it opened nothing.
std::string content_of(const LoadJob& job);

// A checkpoint's "rng" list has an entry for each rank. Returns a list of this rank's alone, or
// nullopt when it has none.
std::optional<Value> rng_of_rank(std::optional<Value> states);

}  // namespace cairn
