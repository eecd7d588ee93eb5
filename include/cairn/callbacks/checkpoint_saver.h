// CheckpointSaver: saves checkpoints during training (composer/callbacks/checkpoint_saver.py).
//
// Saving costs the training thread a gather and a copy into reused memory; writing, publishing and
// removing old files happen on a background thread. docs/checkpoints.md says what you have after a
// crash at any moment.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/storage/object_store.h"
#include "cairn/time.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/interval.h"

namespace cairn {

// Composer's arguments in Composer's order, then cairn's own.
struct CheckpointSaverOptions {
  std::string folder = "{run_name}/checkpoints";               // dist variables
  std::string filename = "ep{epoch}-ba{batch}-rank{rank}.pt";  // dist and time variables
  // What the checkpoint is called where loggers upload it to (RemoteUploaderDownloader), once it is
  // durable here. nullopt: no uploads. In a store, folder and filename say it.
  std::optional<std::string> remote_file_name =
      "{run_name}/checkpoints/ep{epoch}-ba{batch}-rank{rank}.pt";
  std::optional<std::string> latest_filename = "latest-rank{rank}.pt";  // nullopt: no link
  // The same of the link; behind the upload of what it points at.
  std::optional<std::string> latest_remote_file_name =
      "{run_name}/checkpoints/latest-rank{rank}.pt";
  Interval save_interval = "1ep";  // the end of training is saved besides
  // Files of these names may be replaced. False: fit() refuses to start where one would be.
  bool overwrite = false;
  // On this machine; the oldest are removed first. nullopt, or Composer's -1, keeps all. 0 keeps
  // none and makes no link: each file is removed when it is uploaded. Files of the run before a
  // resume count. In a store num_remote_checkpoints_to_keep counts instead.
  std::optional<int> num_checkpoints_to_keep = std::nullopt;
  bool weights_only = false;  // the model alone: nothing can be resumed from it
  // Parts to leave out. What is missing starts afresh when the file is loaded.
  IgnoreKeys ignore_keys = {};
  // In a store: saves that may be on their way, each with a copy of the state, before training
  // waits for one. They arrive one after the other.
  int num_concurrent_uploads = 1;
  // In a store: how long the end of fit() and close() wait for what is on its way. What is not
  // there by then is given up; nothing half is left.
  std::chrono::seconds upload_timeout{3600};
  // In a store that does not answer: for how long a start, and each step of a save, is tried again
  // before the error is thrown (kStorage). Training goes on meanwhile.
  std::chrono::seconds store_patience{1800};

  // In a store, and where loggers upload to: as num_checkpoints_to_keep, but at least 1. Removed
  // when a newer one is durable there.
  std::optional<int> num_remote_checkpoints_to_keep = std::nullopt;
  // False: the save is durable when the event returns. True: when the next save or the end of
  // fit() returns; an error is thrown there.
  bool save_async = true;
  // Saves that may wait for the background thread before a further one waits for them.
  int max_pending_saves = 1;
  // Where `folder` is; null: local_store(). With a store, `folder` is a name in it and no URI.
  // Above, "a store" means one that may_be_far(): any store except local_store(),
  // recycling_local_store() and what passes their calls on.
  std::shared_ptr<ObjectStore> store = nullptr;
};

// TrainerOptions::save_folder makes one; make your own for a second one (weights at another
// interval, with names of their own). Belongs to one run at a time; used on the training thread
// only.
class CheckpointSaver final : public Callback {
 public:
  // UsageError for a name with an unknown extension, or one that needs a program which is not
  // installed (".pt.lzo": lzop); a link that could have a checkpoint's name; an interval that
  // cannot be. UnsupportedError for a folder that is a URI, and no store.
  explicit CheckpointSaver(CheckpointSaverOptions options = {});
  explicit CheckpointSaver(EmptyBraces)  // CheckpointSaver({.folder = "ckpt"})
      : CheckpointSaver(CheckpointSaverOptions()) {}
  ~CheckpointSaver() override;
  CheckpointSaver(CheckpointSaver&&) noexcept;
  CheckpointSaver& operator=(CheckpointSaver&&) noexcept;

  // In a run whose ranks save together, the names are those of the form that they save.
  const CheckpointSaverOptions& options() const;

  std::string name() const override { return "CheckpointSaver"; }
  // Begins a run: forgets what was saved for the previous run. Checks the names with the run's
  // values (UsageError). Creates the folder, makes sure that it can be written to (StorageError),
  // and removes leftovers.
  void init(State& state, Logger& logger) override;
  // Points the link at the loaded checkpoint if this saver wrote it and was killed before it moved
  // the link. Does so also in a run that has nothing left to train. StorageError of ENOSPC if the
  // folder has less room than the next checkpoint needs.
  void after_load(State& state, Logger& logger) override;
  // Takes the lock of the run in the folder until fit_end. BusyError if another process trains the
  // run. AlreadyExistsError, unless `overwrite` is set, for a checkpoint that training would
  // replace.
  void fit_start(State& state, Logger& logger) override;
  void batch_checkpoint(State& state, Logger& logger) override;
  void epoch_checkpoint(State& state, Logger& logger) override;
  void iteration_checkpoint(State& state, Logger& logger) override;
  bool will_save(Event event, const State& state) override;
  // Waits; throws what a save threw. The *_checkpoint events before that do the latter, too.
  void fit_end(State& state, Logger& logger) override;
  void close(State& state, Logger& logger) override;  // waits
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

  // Saves now, whatever the interval says: for foreign loops. AlreadyExistsError, unless
  // `overwrite` is set, for a checkpoint that it would replace, when no fit() has checked that.
  void save(State& state, Logger& logger);
  // The same, unless this saver has saved this batch by this name already, and that checkpoint is
  // there or on its way: for "save now" requests, which may come in a batch that was saved anyway.
  void save_unless_saved(State& state, Logger& logger);
  // Removes the oldest checkpoints until num_checkpoints_to_keep are left: a save that was killed
  // may not have done so. A Trainer calls this when it finds its run finished, since no save
  // follows then. All ranks call it together. A failed removal is a warning.
  void remove_superfluous(State& state, Logger& logger);
  // Waits for saves under way; throws what one of them threw.
  void wait();

  // Paths saved, oldest first, that are still there. Those of the run before a resume are among
  // them. Waits for saves under way; throws what one of them threw.
  std::vector<std::string> saved_checkpoints();
  // The same paths, and when in training each was saved.
  std::map<std::string, Timestamp> all_saved_checkpoints_to_timestamp();

  struct OfRun;  // what a Trainer says to its savers: internal

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
