// What a CheckpointSaver has and does. checkpoint_saver.cpp opens with its steps.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/train/state.h"

#include "callbacks/saved_checkpoints.h"
#include "callbacks/saver_folder.h"
#include "callbacks/saver_options.h"
#include "callbacks/saver_uploads.h"
#include "checkpoint/names/launch.h"
#include "checkpoint/plan/save_pipeline.h"
#include "dist/team.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "storage/local_store.h"
#include "train/state/checkpoint_info.h"
#include "train/state/rank_saves.h"
#include "train/state/replica_check.h"
#include "train/state/sharded_state.h"
#include "train/state/state_gatherer.h"

namespace cairn {

struct FinishedSave {
  std::uint64_t number;  // of the save
  SaveReport report;
  std::chrono::duration<double> duration;
};

// What the background thread reports until the training thread asks.
class FinishedQueue {
 public:
  void push(FinishedSave finished) {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(finished));
  }
  std::vector<FinishedSave> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(queue_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<FinishedSave> queue_;
};

struct CheckpointSaver::Impl {
  explicit Impl(CheckpointSaverOptions o)
      : options(checked_options(std::move(o))),
        given(options),
        is_far(!is_local(*options.store)),
        is_due(create_interval_scheduler(options.save_interval)),
        uploads(options.num_remote_checkpoints_to_keep),
        pipeline({.async = options.save_async,
                  .max_pending = static_cast<std::size_t>(
                      is_far ? std::max(options.max_pending_saves, options.num_concurrent_uploads)
                             : options.max_pending_saves),
                  .store = options.store}) {
    check_names(options, dist_variables("?"));  // as far as they are known; init() knows the run
  }

  std::string folder(const State& state) const {
    return strict_format(NameFormat(options.folder), dist_variables(state.run_name));
  }
  // Rank 0's folder, and where other ranks have parts of what is in it.
  std::string writers_folder(const State& state) const {
    return strict_format(NameFormat(options.folder), variables_of_writer(state.run_name));
  }
  std::string path(const State& state, const std::string& name) const {
    return join_path(folder(state), name_now(state, name));
  }

  int keep() const {
    return is_far ? options.num_remote_checkpoints_to_keep : options.num_checkpoints_to_keep;
  }
  bool saves_here() const { return keep() != 0 || has_uploads; }
  bool saves_anything() const { return saves_here() || !elsewhere.empty(); }
  void set_condition(SaveJob& job, const State& state) const;
  void ask_before_removal(SaveJob& job, const State& state) const;
  void disown(const std::vector<std::string>& refused);
  std::string name_now(const State& state, const std::string& format) const {
    return strict_format(NameFormat(format),
                         dist_variables(state.run_name) + time_variables(state.timestamp));
  }
  void begin_upload(const State& state, const std::string& path);
  void upload(Logger& logger);

  void forget_run_before();
  void look_around(const State& state);
  void remove_leftovers(const State& state, Logger& logger) const;
  void prepare_machines(const State& state, Logger& logger) const;
  void look_at_uploads(const State& state, const Logger& logger) const;
  void forget_further(const std::vector<FolderConflicts::File>& kept, const Timestamp& now);
  void know_version(const FolderConflicts::File& file, const Timestamp& now);

  // checkpoint_saver_lock.cpp.
  std::shared_ptr<void> take_lock(const State& state) const;
  void try_names(const State& state);
  void look_at_lock(const State& state);
  std::string newest_by_link(const State& state) const;
  void say_without_locks(const std::string& saved_path);
  void lock_run(const State& state, Logger& logger);
  std::optional<std::shared_ptr<void>> lock_unless_busy(const State& state) const;
  void retain(const State& state, Logger& logger);
  void report_retention(const SaveReport& done);
  void check_room(const State& state) const;

  bool is_save_due(const State& state, Event event);
  void event(State& state, Logger& logger, Event event);
  Value gather() const;
  void check_replicas(const State& state);
  void save(State& state, Value rng, WholeState& whole, Logger& logger);
  SaveJob next_job(const State& state);
  void begin_fit(State& state, Logger& logger);
  SaveJob job_of_part(const State& state, const std::string& where, const List& superfluous);
  void begin_sharded(State& state, Logger& logger);
  // Step 10.
  void begin_tars(const State& state);
  void save_tar(State& state, Logger& logger, bool is_asked);
  // Whether another rank writes what this saver saves.
  bool is_idle() const { return is_written_elsewhere() && !has_tars; }
  // `needed`: whether the save lacks, here and in each place elsewhere. Empty: everywhere.
  void save_over_ranks(State& state, Logger& logger, bool is_asked, const List& needed = {});
  void save_here_over_ranks(State& state, Logger& logger, bool is_asked);
  void prepare(const State& state);
  void clear_way(const std::string& path, const std::string& run_name);
  void clear_kind(const std::string& path, bool is_link);
  void clear_names(const std::string& path, const std::string& latest, const std::string& run_name);
  // Where the link is after a save now; "" if there is none.
  std::string latest_path(const State& state) const {
    return options.latest_filename ? path(state, *options.latest_filename) : "";
  }
  bool needs_save(const State& state, Logger& logger, std::exception_ptr& refused);
  bool has_saved(const State& state) const;
  std::vector<std::pair<std::string, Timestamp>> finished_saves();
  void submit(SaveJob request);
  void settle();
  void report(Logger& logger);
  void wait();
  void forget_failed();
  void throw_error();
  SaverPlace place(const State& state) const;
  void recognise_saved(const State& state);
  void look_at_folder(const State& state);
  void look_at_name(const State& state);
  void take(const FolderConflicts& found, const Timestamp& now);
  void log_messages(Logger& logger);
  void agree_on_last_batch();

  CheckpointSaverOptions options;
  const CheckpointSaverOptions given;  // before a run whose ranks save in their own ways changed it
  const bool is_far;
  std::unique_ptr<RankSaves> ranks;  // of sharded checkpoints: step 8; and of tars: step 10
  bool has_tars = false;             // step 10
  // Where loggers keep files: the same checkpoints, with a pipeline, pointer and retention each.
  std::vector<std::unique_ptr<CheckpointSaver>> elsewhere;
  std::function<bool(const State&, Event)> is_due;
  struct Answer {
    Event event;
    std::int64_t batch;
    bool is_due;
  };
  std::optional<Answer> answer;  // of the interval, from will_save() until its event
  std::optional<std::int64_t> last_checkpoint_batch;
  struct Newest {
    std::uint64_t number = 0;
    std::string path;
    Timestamp timestamp;
    bool is_durable = false;  // else it is under way
  };
  std::optional<Newest> newest;  // save of this process that is not known to have failed
  std::string saved_in_parts;    // what was gone on from, of which others have the rest
  std::uint64_t saves_begun = 0;
  SavedCheckpoints saved;
  bool may_rewrite_own = false;
  bool has_checked = false;                 // what a fit() would write over, since init()
  std::optional<std::string> gone_on_from;  // SaverPlace's
  std::set<std::string> replaceable;        // by sharded checkpoints, far away
  // In the way, but nobody can go on from them; by their versions, far away.
  std::map<std::string, std::string> unusable;
  std::set<std::string> not_looked_at;  // FolderConflicts's
  std::string constant_path;  // far away: of all checkpoints; empty when their names have counters
  std::optional<std::string> constant_version;  // of what was there at init()
  bool has_uploads = false;                     // since init()
  SaverUploads uploads;
  std::vector<std::string> durable;  // to be handed over
  std::shared_ptr<FinishedQueue> finished = std::make_shared<FinishedQueue>();
  std::vector<std::string> messages;  // for the next logger that an event gives
  // Where the link led when this run was looked for, if another job had the lock then.
  std::optional<std::string> newest_while_locked;
  std::shared_ptr<void> run_lock;       // during a fit(); null: no locks, or another rank has it
  std::string start = random_digits();  // the same on all ranks after init(): they share the lock
  StateGatherer gatherer;               // continues from the previous save
  ReplicaCheck replicas;                // used with several processes
  SavePipeline pipeline;                // last: its thread uses the queue
};

}  // namespace cairn
