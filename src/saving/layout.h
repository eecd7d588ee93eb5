// The form of a run's checkpoints: one file, of a Trainer's state or of a program's own dict, a
// folder that all ranks write, or a tar per rank.
//
//  1. adapt() gives the saver's names the form of the layout.
//  2. join(), on all ranks: gets everything that a save needs from other ranks. Nothing before
//     join() may fail on one rank alone.
//  3. save(), on all ranks. Rank 0, or each rank for its own names, plans the save (Destination).
//     The state is gathered into the job, and the destination submits it.
//
// Each Destination owns a layout: each place of a run has its own saving thread, and threads that
// meet other ranks have their own roll calls.
#pragma once

#include <memory>
#include <string>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/export.h"

#include "checkpoint/plan/save_job.h"

namespace CAIRN_PUBLIC cairn {
class Logger;
class State;
}  // namespace cairn

namespace cairn {

class Destination;
class ReplicaCheck;
class WholeState;

// The result of step 2 for one file.
struct JoinedState {
  JoinedState();
  ~JoinedState();
  JoinedState(JoinedState&&) noexcept;
  JoinedState& operator=(JoinedState&&) noexcept;

  Value rng = {};                     // All ranks' states.
  std::unique_ptr<WholeState> whole;  // For a sharded run.
};

struct SaveRequest {
  State& state;
  Logger& logger;
  ReplicaCheck& replicas;
  // If true, the program requested the save, not the interval. Then possibly no fit() has looked at
  // the folder yet.
  bool is_asked = false;
};

class CheckpointLayout {
 public:
  virtual ~CheckpointLayout() = default;

  // Step 1. `has_uploads`: loggers upload the saved files. Throws UsageError or UnsupportedError
  // for names and options that do not fit the layout.
  virtual void adapt(CheckpointSaverOptions& /*options*/, const State& /*state*/,
                     bool /*has_uploads*/) const {}

  // Whether this rank has its own names. Then it checks existing files, chooses paths and removes
  // checkpoints.
  virtual bool is_writer() const;
  // Whether every rank takes a role in each save. Then all ranks throw the errors of a save at the
  // same place: before the next save, in wait() and at fit_end.
  virtual bool is_of_all_ranks() const { return true; }
  // Whether this rank is the first of a machine other than rank 0's.
  virtual bool is_first_of_another_machine() const { return false; }
  virtual bool makes_folders() const { return false; }
  // Whether the file's size can be known in advance with these `options`.
  virtual bool has_known_size(const CheckpointSaverOptions& options) const = 0;

  // Step 2.
  virtual JoinedState join(const State& /*state*/, bool /*weights_only*/) const { return {}; }
  // Whether this rank hashes the copies that its save makes (ReplicaCheck).
  virtual bool hashes_copies(const State& /*state*/,
                             const CheckpointSaverOptions& /*options*/) const {
    return false;
  }
  // Step 3.
  virtual void save(Destination& to, const SaveRequest& what, JoinedState joined) = 0;
  // Forgets all state of previous saves.
  virtual void forget_saves() {}
};

std::unique_ptr<CheckpointLayout> one_file();
std::unique_ptr<CheckpointLayout> dict_file();
// Collective. Throws DistError.
std::unique_ptr<CheckpointLayout> sharded_folder();
std::unique_ptr<CheckpointLayout> rank_tar();

}  // namespace cairn
