// The form of a run's checkpoints: one file, a folder that all ranks write, or a tar of each rank.
//
//  1. adapt() gives the saver's names the form of the layout.
//  2. join(), on all ranks: all that a save needs of other ranks. Nothing before it may fail on one
//     rank alone.
//  3. save(), on all ranks: rank 0, or each rank for its own names, plans the save (Destination);
//     the state is gathered into the job; the destination submits it.
//
// A Destination owns one, since each place of a run has its own thread that saves, and threads that
// meet other ranks have roll calls of their own.
#pragma once

#include <memory>
#include <string>

#include "cairn/callbacks/checkpoint_saver.h"

#include "checkpoint/plan/save_job.h"

namespace cairn {

class Destination;
class Logger;
class ReplicaCheck;
class State;
class WholeState;

// Step 2, what one file needs.
struct Joined {
  Joined();
  ~Joined();
  Joined(Joined&&) noexcept;
  Joined& operator=(Joined&&) noexcept;

  Value rng = {};                     // of all ranks
  std::unique_ptr<WholeState> whole;  // of a sharded run
};

struct SaveRequest {
  State& state;
  Logger& logger;
  ReplicaCheck& replicas;
  // By the program and not by the interval: no fit() may have looked at the folder.
  bool is_asked = false;
};

class CheckpointLayout {
 public:
  virtual ~CheckpointLayout() = default;

  // Step 1. `has_uploads`: loggers upload what is saved. UsageError, UnsupportedError for names and
  // options that do not go with it.
  virtual void adapt(CheckpointSaverOptions& /*options*/, const State& /*state*/,
                     bool /*has_uploads*/) const {}

  // Whether this rank has names of its own: it looks at what is there, says where, and removes.
  virtual bool is_writer() const;
  // Whether every rank has part in each save. Then all ranks throw the errors of a save, at the
  // same place: before the next one, in wait() and at fit_end.
  virtual bool is_of_all_ranks() const { return true; }
  // Whether this rank is the first of a machine other than rank 0's.
  virtual bool is_first_of_another_machine() const { return false; }
  virtual bool makes_folders() const { return false; }
  // Whether `options` say how large the file will be.
  virtual bool has_known_size(const CheckpointSaverOptions& options) const = 0;

  // Step 2.
  virtual Joined join(const State& /*state*/, bool /*weights_only*/) const { return {}; }
  // Whether this rank hashes the copies that its save makes (ReplicaCheck).
  virtual bool hashes_copies(const State& /*state*/,
                             const CheckpointSaverOptions& /*options*/) const {
    return false;
  }
  // Step 3.
  virtual void save(Destination& to, const SaveRequest& what, Joined joined) = 0;
  // Keeps nothing of the saves before.
  virtual void let_go() {}
};

std::unique_ptr<CheckpointLayout> one_file();
// On all ranks together. DistError.
std::unique_ptr<CheckpointLayout> sharded_folder();
std::unique_ptr<CheckpointLayout> rank_tar();

}  // namespace cairn
