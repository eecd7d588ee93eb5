// One place where a run's checkpoints go. A Destination knows the folder in a store, the names in
// it, the checkpoints saved there, and which names may be overwritten. CheckpointSaver decides when
// to save. A CheckpointLayout gathers the state.
//
//  1. prepare(), before anything is loaded, checks that the folder can be written to, and removes
//     leftovers.
//  2. after_load(): the loaded checkpoint may be from this saver, which was killed before it moved
//     the link.
//  3. begin_fit() takes the run's lock, and finds files that training would overwrite.
//  4. plan() makes the job of a save: its path, the link, and the superfluous checkpoints. The path
//     is registered first, so that the checkpoint names itself.
//  5. submit() gives the job to the pipeline, which writes, publishes and removes on its own
//     thread.
//  6. settle() takes note of finished saves. A superfluous checkpoint counts as existing until its
//     removal is reported. wait() drops a failed save.
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

// Facts about the run that all its destinations use.
struct RunFacts {
  // If true, fit() may overwrite later checkpoints of this run (by run_name) instead of refusing to
  // start: the run resumes from before them.
  bool may_rewrite_own = false;
  std::optional<std::string> resumed_from = std::nullopt;  // As in SaverPlace.
  std::string job = {};  // The same on all ranks of a start: they share the run's lock.
  // The last value of keep_best's metric, and when it was computed.
  std::optional<std::pair<Timestamp, double>> metric = std::nullopt;
};

// Reports and lines of the background thread, kept until the training thread takes them.
class FinishedSaves {
 public:
  Notes notes;  // Lines about retries.
  struct One {
    std::uint64_t number;  // The save's number.
    SaveReport report;
    std::chrono::duration<double> duration;
    bool is_first = false;  // The first that arrived.
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

// To be used only on the training thread.
class Destination {
 public:
  // `options` are checked already. `feeds_uploads`: loggers upload from this place. `run` must
  // outlive the object. So must `messages`, which collects lines for the logger of the next event.
  Destination(CheckpointSaverOptions options, std::unique_ptr<CheckpointLayout> layout,
              bool feeds_uploads, const RunFacts& run, std::vector<std::string>& messages);

  const CheckpointSaverOptions& options() const { return options_; }
  CheckpointLayout& layout() const { return *layout_; }
  SavedCheckpoints& saved() { return saved_; }
  // Whether a save leaves files in this place, even if only until the loggers have the files.
  bool saves_here() const { return checkpoints_to_keep(options_) != 0 || feeds_uploads_; }
  // The link as it was found in a far store.
  std::optional<Pointer> link_at_start(const State& state) const;

  // Collective. Steps 1 to 3.
  void prepare(const State& state, Logger& logger);
  void after_load(const State& state, Logger& logger);
  void begin_fit(const State& state, Logger& logger);

  // Step 4: plan() on a rank that has its own names. plan_part() on another rank, to which rank 0
  // sends the path and the superfluous checkpoints, as names in rank 0's folder.
  SaveJob plan(const SaveRequest& what);
  SaveJob plan_part(const SaveRequest& what, const std::string& path, const List& superfluous);
  // Step 5. `fill` completes the job. If `fill` or the pipeline throws, the save is dropped.
  void submit(SaveJob job, const std::function<void(SaveJob&)>& fill);
  // Step 6.
  void settle();
  // Waits for pending saves, settles, and throws the error of a failed save.
  void wait();
  // Whether the pending save waits for a store that cannot be reached.
  bool is_store_unreachable() const { return pipeline_.is_store_unreachable(); }
  // Throws the error of an earlier save. Waits for no save.
  void throw_error();
  // As wait(). Afterwards nothing is held: no tensor of a previous save, and not the run's lock.
  void close();
  // The paths that settle() has found durable, if loggers upload them from here. The caller removes
  // them from the list.
  std::vector<std::string>& durable() { return durable_; }

  // Whether this batch, under the name that it has now, is saved or being saved.
  bool has_saved(const State& state) const;
  // Collective. Removes superfluous checkpoints, as a save would.
  void remove_superfluous(const State& state, Logger& logger);
  // The checkpoints that were saved here and still exist, oldest first. No save may be pending.
  std::vector<std::pair<std::string, Timestamp>> finished_saves() const;

  // The batch of the last save that was due here, even if it was left out or failed, or of a
  // checkpoint that was found saved. nullopt if there was none.
  std::optional<std::int64_t> last_due;

 private:
  // The newest save of this process that is not known to have failed.
  struct Newest {
    std::uint64_t number = 0;
    std::string path;
    Timestamp timestamp;
    bool is_durable = false;  // False: it is pending.
  };
  SaverPlace place(const State& state, Logger& logger) const;
  void note_already_saved(const State& state, Logger& logger);
  SaveJob next_job(const SaverPlace& here, const State& state);
  void note_removed(const SaveReport& done);
  void drop_failed();

  CheckpointSaverOptions options_;
  const std::unique_ptr<CheckpointLayout> layout_;
  const bool feeds_uploads_;
  const RunFacts& run_;
  std::vector<std::string>& messages_;
  SavedCheckpoints saved_;
  std::uint64_t saves_begun_ = 0;
  std::optional<Newest> newest_;
  std::string saved_in_parts_;  // The loaded checkpoint, if other machines have the rest of it.
  std::vector<std::string> durable_;  // See durable().
  std::shared_ptr<FinishedSaves> finished_ = std::make_shared<FinishedSaves>();
  SaverLock lock_;
  SavePipeline pipeline_;  // Its thread uses finished_.
  NameRights rights_;
};

}  // namespace cairn
