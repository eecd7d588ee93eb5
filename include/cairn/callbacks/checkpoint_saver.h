// CheckpointSaver: saves checkpoints during training (composer/callbacks/checkpoint_saver.py).
//
// A save costs the training thread a gather and a copy into reused memory. A background thread
// writes, publishes and removes files. docs/checkpoints.md says what is left after a crash at any
// moment.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/checkpoint/keep_best.h"
#include "cairn/export.h"
#include "cairn/storage/object_store.h"
#include "cairn/time.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/interval.h"

namespace CAIRN_PUBLIC cairn {

// Composer's arguments in Composer's order, then the options that only cairn has. "A store" means
// one that may_be_far(): any store except local_store(), recycling_local_store() and stores that
// pass calls on to one of these two.
struct CheckpointSaverOptions {
  std::string folder = "{run_name}/checkpoints";               // dist variables
  std::string filename = "ep{epoch}-ba{batch}-rank{rank}.pt";  // dist and time variables
  // The checkpoint's name where loggers upload it (RemoteUploaderDownloader) after it is durable
  // here. nullopt: no uploads. Not used in a store, where folder and filename give the name.
  std::optional<std::string> remote_file_name =
      "{run_name}/checkpoints/ep{epoch}-ba{batch}-rank{rank}.pt";
  std::optional<std::string> latest_filename = "latest-rank{rank}.pt";  // nullopt: no link
  // The link's name where loggers upload it, after the checkpoint that it points at.
  std::optional<std::string> latest_remote_file_name =
      "{run_name}/checkpoints/latest-rank{rank}.pt";
  Interval save_interval = "1ep";  // the end of training is saved, too
  // If true, files with the names above may be replaced. If false, fit() refuses to start when a
  // checkpoint that it will write exists already.
  bool overwrite = false;
  // Checkpoints to keep on this machine; the oldest are removed first. nullopt, or Composer's -1,
  // keeps all. 0 keeps none and makes no link: each file is removed after its upload. Files that
  // the run wrote before a resume count, too. In a store num_remote_checkpoints_to_keep applies
  // instead.
  std::optional<int> num_checkpoints_to_keep = std::nullopt;
  bool weights_only = false;  // only the model; a run cannot resume from it
  // Parts to leave out. When the checkpoint is loaded, these parts start afresh.
  IgnoreKeys ignore_keys = {};
  // In a store: the number of saves that may be under way before training waits. Each of them holds
  // a copy of the state. Their checkpoints become visible one after the other.
  int num_concurrent_uploads = 1;
  // In a store: how long the end of fit() and close() wait for uploads. Uploads that have not
  // finished by then are abandoned, and leave no partial checkpoint.
  std::chrono::seconds upload_timeout{3600};
  // If a store does not answer: how long cairn retries a start, and each step of a save, before it
  // throws the error (kStorage). Training goes on meanwhile.
  std::chrono::seconds store_patience{1800};

  // Checkpoints to keep in a store, and in each place that loggers upload to. Works as
  // num_checkpoints_to_keep does, but the number is at least 1. An old checkpoint is removed when a
  // newer one is durable in the same place.
  std::optional<int> num_remote_checkpoints_to_keep = std::nullopt;
  // Keeps the best checkpoints, too, beside the newest ones that the two numbers above keep: one of
  // the two must be set. `metric` is "LABEL/NAME" as in logs: "eval/MulticlassAccuracy", of an
  // evaluator or of the training data. fit() throws UsageError if there is no such metric. A
  // restarted run knows the values of checkpoints from before.
  std::optional<KeepBest> keep_best = std::nullopt;
  // If false, the save is durable when the event returns. If true, it is durable when the next save
  // or the end of fit() returns. If the save failed, that next call throws its error.
  bool save_async = true;
  // Saves that may wait for the background thread. One more save waits until there is room.
  int max_pending_saves = 1;
  // The store that `folder` is in; null: local_store(). `folder` is then a name as the store takes
  // it: for object_store_of("s3://bucket") a whole URI, for s3_store() the key alone.
  std::shared_ptr<ObjectStore> store = nullptr;
};

// A Trainer makes one if TrainerOptions::save_folder is set. Make your own for a second series of
// checkpoints, such as weights at another interval, under different names. Belongs to one run at a
// time; use it on the training thread only.
//
// A loop of your own calls init() before it loads, and after_load() after it, also if there was
// nothing to load. Then it calls fit_start() before the first step. After each step, when the
// timestamp has advanced, it calls batch_checkpoint(), and after each epoch epoch_checkpoint(). At
// the end it calls fit_end(). docs/own_loop.md has a whole program.
class CheckpointSaver final : public Callback {
 public:
  // Throws UsageError for a name with an unknown extension, and for an extension whose program is
  // not installed (".pt.lzo": lzop). Also throws UsageError if the link could have a checkpoint's
  // name, and for an invalid interval. Throws UnsupportedError if the folder is a URI and no store
  // is given.
  explicit CheckpointSaver(CheckpointSaverOptions options = {});
  explicit CheckpointSaver(EmptyBraces)  // CheckpointSaver({.folder = "ckpt"})
      : CheckpointSaver(CheckpointSaverOptions()) {}
  ~CheckpointSaver() override;
  CheckpointSaver(CheckpointSaver&&) noexcept;
  CheckpointSaver& operator=(CheckpointSaver&&) noexcept;

  // The options in use. In a run whose ranks save together, the names are adapted to this form of
  // checkpoints.
  const CheckpointSaverOptions& options() const;

  std::string name() const override { return "CheckpointSaver"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  // Begins a run: forgets what was saved for the previous run. Checks the names with the run's
  // values (UsageError). Creates the folder, makes sure that it can be written to (StorageError),
  // and removes leftovers.
  void init(State& state, Logger& logger) override;
  // Points the link at the loaded checkpoint if this saver wrote it and was killed before it moved
  // the link. Does so also in a run that has nothing left to train. Throws StorageError (ENOSPC) if
  // the folder has less room than the next checkpoint needs.
  void after_load(State& state, Logger& logger) override;
  // Locks the run in the folder until fit_end. Throws BusyError if another process trains the run.
  // Throws AlreadyExistsError if training would replace a checkpoint and `overwrite` is not set.
  void fit_start(State& state, Logger& logger) override;
  void batch_checkpoint(State& state, Logger& logger) override;
  void epoch_checkpoint(State& state, Logger& logger) override;
  void iteration_checkpoint(State& state, Logger& logger) override;
  void eval_end(State& state, Logger& logger) override;  // takes note of keep_best's metric
  bool will_save(Event event, const State& state) override;
  // Waits for saves under way, and throws the error of a failed one. The *_checkpoint events throw
  // such errors, too, without waiting.
  void fit_end(State& state, Logger& logger) override;
  void close(State& state, Logger& logger) override;  // waits for saves under way
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

  // Saves now, regardless of the interval: for loops of your own. Throws AlreadyExistsError if the
  // save would replace a checkpoint, no fit() has checked the name, and `overwrite` is not set.
  void save(State& state, Logger& logger);
  // As save(), but does nothing if this saver has already saved this batch under this name, and
  // that checkpoint exists or is being written. For "save now" requests, which may come in a batch
  // that is saved anyway.
  void save_unless_saved(State& state, Logger& logger);
  // Removes the oldest checkpoints until num_checkpoints_to_keep are left. A killed save may have
  // left more. A Trainer calls this if its run is finished already, since no save follows then. All
  // ranks call it together. A failed removal is a warning.
  void remove_superfluous(State& state, Logger& logger);
  // Waits for saves under way, and throws the error of a failed one.
  void wait();

  // Paths of saved checkpoints that still exist, oldest first, including those of the run before a
  // resume. Waits for saves under way, and throws the error of a failed one.
  std::vector<std::string> saved_checkpoints();
  // The same paths, each with the training time at which it was saved.
  std::map<std::string, Timestamp> all_saved_checkpoints_to_timestamp();
  // The checkpoints that keep_best keeps, the best first, each with its metric.
  std::vector<std::pair<std::string, double>> best_checkpoints();

  struct TrainerCalls;  // the Trainer's calls to its savers: internal

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
