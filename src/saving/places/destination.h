// One place where a run's checkpoints go: a folder of a store, the names in it, what is saved
// there, and what may be written over. CheckpointSaver says when; a CheckpointLayout gathers the
// state.
//
//  1. prepare(), before anything is loaded: the folder can be written to, and leftovers go.
//  2. after_load(): the loaded checkpoint may be this saver's own, killed before it moved the link.
//  3. begin_fit() takes the run's lock and finds out what training would write over.
//  4. plan() makes the job of a save: its path, the link, and what becomes superfluous. The path is
//     registered first, so that the checkpoint names itself.
//  5. submit() hands the job to the pipeline, which writes, publishes and removes on its thread.
//  6. settle() learns what has finished. A superfluous checkpoint counts as there until its
//     removal is reported; wait() drops a save that failed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/time.h"
#include "cairn/value.h"

#include "checkpoint/plan/save_pipeline.h"
#include "core/notes.h"
#include "saving/layout.h"
#include "saving/places/name_rights.h"
#include "saving/places/saved_checkpoints.h"
#include "saving/places/saver_folder.h"
#include "saving/places/saver_lock.h"
#include "saving/saver_options.h"

namespace cairn {

// Facts of the run that all its destinations go by.
struct RunAt {
  // Whether checkpoints of the run itself, by its run_name, that are further in training are no
  // conflict when a fit() starts, but are written again: the run goes on from before them.
  bool may_rewrite_own = false;
  std::optional<std::string> gone_on_from = std::nullopt;  // SaverPlace's
  std::string job = {};  // the same on all ranks of this start: they share the run's lock
};

// Reports and lines of the background thread, until the training thread asks for them.
class FinishedSaves {
 public:
  Notes notes;  // of its retries
  struct One {
    std::uint64_t number;  // of the save
    SaveReport report;
    std::chrono::duration<double> duration;
    bool is_first = false;  // of those that arrived
  };
  void push(One finished) {
    const std::scoped_lock lock(mutex_);
    finished.is_first = !finished.report.is_skipped && !std::exchange(has_any_, true);
    finished_.push_back(std::move(finished));
  }
  std::vector<One> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(finished_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<One> finished_;
  bool has_any_ = false;
};

// Used on the training thread only.
class Destination {
 public:
  // `options`: checked. `is_fed`: loggers upload what is saved here. `run`, and `messages` for the
  // next logger that an event gives, must outlive it.
  Destination(CheckpointSaverOptions options, std::unique_ptr<CheckpointLayout> layout, bool is_fed,
              const RunAt& run, std::vector<std::string>& messages);

  const CheckpointSaverOptions& options() const { return options_; }
  CheckpointLayout& layout() const { return *layout_; }
  SavedCheckpoints& saved() { return saved_; }
  // Whether a save leaves anything here, if only until loggers have it.
  bool saves_here() const { return keep_of(options_) != 0 || is_fed_; }
  // The link as it was found in a store that is far away.
  std::optional<Pointer> seen_link(const State& state) const;

  // Steps 1 to 3, on all ranks together.
  void prepare(const State& state, Logger& logger);
  void after_load(const State& state, Logger& logger);
  void begin_fit(const State& state, Logger& logger);

  // Step 4, on a rank that has names of its own; and on another, to which rank 0 says the path and
  // what becomes superfluous, as names in rank 0's folder.
  SaveJob plan(const SaveRequest& what);
  SaveJob plan_part(const SaveRequest& what, const std::string& path, const List& superfluous);
  // Step 5. `fill` completes the job. When it throws, or the pipeline, the save is dropped.
  void submit(SaveJob job, const std::function<void(SaveJob&)>& fill);
  // Step 6.
  void settle();
  // Waits for saves under way, settles, and throws what one of them threw.
  void wait();
  // Whether the save that is under way waits for a store that is away.
  bool is_away() const { return pipeline_.is_away(); }
  // Throws what an earlier save threw, without waiting for one.
  void throw_error();
  // wait(), after which nothing is held: no tensor of a save before, and not the run's lock.
  void close();
  // The paths that settle() has found durable, if loggers upload them from here. The caller takes
  // them out.
  std::vector<std::string>& durable() { return durable_; }

  // Whether this very batch is saved under the name that it has now, or on its way.
  bool has_saved(const State& state) const;
  // Removes what is superfluous, as a save would. On all ranks together.
  void retain(const State& state, Logger& logger);
  // The checkpoints that were saved here and are still there, oldest first. Nothing may be under
  // way.
  std::vector<std::pair<std::string, Timestamp>> finished_saves() const;

  // The batch of the last save that was due here, also of one that was left out or failed; and of
  // what was found saved. nullopt: there was none.
  std::optional<std::int64_t> last_due;

 private:
  // The newest save of this process that is not known to have failed.
  struct Newest {
    std::uint64_t number = 0;
    std::string path;
    Timestamp timestamp;
    bool is_durable = false;  // else it is under way
  };
  SaverPlace place(const State& state, Logger& logger) const;
  void recognise_saved(const State& state, Logger& logger);
  SaveJob next_job(const SaverPlace& here, const State& state);
  void count_removed(const SaveReport& done);
  void drop_failed();

  CheckpointSaverOptions options_;
  const std::unique_ptr<CheckpointLayout> layout_;
  const bool is_fed_;
  const RunAt& run_;
  std::vector<std::string>& messages_;
  SavedCheckpoints saved_;
  std::uint64_t saves_begun_ = 0;
  std::optional<Newest> newest_;
  std::string saved_in_parts_;        // the checkpoint that was loaded, if others have the rest
  std::vector<std::string> durable_;  // durable()
  std::shared_ptr<FinishedSaves> finished_ = std::make_shared<FinishedSaves>();
  SaverLock lock_;
  SavePipeline pipeline_;  // its thread uses finished_
  NameRights rights_;
};

}  // namespace cairn
