// When and where to save. How is SavePipeline's.
//
//  1. At a *_checkpoint event the interval says whether a save is due; one batch is saved once.
//  2. Settle: log what the background thread finished since.
//  3. Register the path, so that the checkpoint names itself, then gather: a tree of views of live
//     memory. The pipeline copies them before submit() returns; nothing changes them until then.
//  4. Submit, with the files that become superfluous. They count as there until their removal is
//     reported, and the new one is dropped when it fails.
//  5. An error of the background thread is thrown by the next save, by wait(), or at fit_end; in a
//     store that is far away, at the next *_checkpoint event.
//  6. What is saved in a folder of this machine is handed to the loggers that keep files when it is
//     durable here: at the next event, and before the next save begins (saver_uploads.h).
//  7. In a store that is far away a save is a write of what was not there, or of the very version
//     that was found there when training began, or that this saver wrote last, unless `overwrite`
//     is set: of two jobs with one run the second is refused, and never writes over the first.
#include "cairn/callbacks/checkpoint_saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <set>

#include "cairn/checkpoint/names.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "callbacks/saved_checkpoints.h"
#include "callbacks/saver_folder.h"
#include "callbacks/saver_uploads.h"
#include "checkpoint/folder/leftovers.h"
#include "checkpoint/names/shared_name.h"
#include "checkpoint/plan/save_pipeline.h"
#include "checkpoint/plan/write_checkpoint.h"
#include "core/size_text.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/local_store.h"
#include "storage/place.h"
#include "storage/publish.h"
#include "train/state/checkpoint_info.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

struct Finished {
  std::uint64_t number;  // of the save
  SaveReport report;
  std::chrono::duration<double> duration;
};

// What the background thread reports until the training thread asks.
class FinishedQueue {
 public:
  void push(Finished finished) {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(finished));
  }
  std::vector<Finished> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(queue_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Finished> queue_;
};

CheckpointSaverOptions checked(CheckpointSaverOptions options) {
  const std::string problem = options.store ? "" : writing_problem(options.folder);
  if (!problem.empty()) throw UnsupportedError(problem);
  options.store = store_of(options.folder, options.store);
  if (options.folder.empty()) options.folder = ".";
  for (auto* name :
       {&options.latest_filename, &options.remote_file_name, &options.latest_remote_file_name}) {
    if (*name == "") name->reset();
  }
  strict_format(options.folder, dist_variables("run"));  // counters are no variables of a folder
  for (std::string* name :
       {&options.filename, options.latest_filename ? &*options.latest_filename : nullptr}) {
    if (name == nullptr) continue;
    name->erase(0, name->find_first_not_of('/'));
  }
  if (options.num_checkpoints_to_keep < -1) {
    throw UsageError("num_checkpoints_to_keep is -1 (all), 0 or more, not " +
                     std::to_string(options.num_checkpoints_to_keep));
  }
  const int keep_remote = options.num_remote_checkpoints_to_keep;
  if (keep_remote < 1 && keep_remote != -1) {
    throw UsageError("num_remote_checkpoints_to_keep is -1 (all), 1 or more, not " +
                     std::to_string(keep_remote));
  }
  if (options.num_concurrent_uploads < 1) {
    throw UsageError("num_concurrent_uploads must be at least 1");
  }
  if (options.max_pending_saves < 1) throw UsageError("max_pending_saves must be at least 1");
  return options;
}

}  // namespace

struct CheckpointSaver::Impl {
  explicit Impl(CheckpointSaverOptions o)
      : options(checked(std::move(o))),
        is_far(!is_local(*options.store)),
        is_due(create_interval_scheduler(options.save_interval)),
        uploads(options.num_remote_checkpoints_to_keep),
        pipeline({.async = options.save_async,
                  .max_pending = static_cast<std::size_t>(
                      is_far ? std::max(options.max_pending_saves, options.num_concurrent_uploads)
                             : options.max_pending_saves),
                  .store = options.store}) {
    check_names(dist_variables("?"));  // as far as they are known; init() knows the run
  }

  std::string folder(const State& state) const {
    return strict_format(options.folder, dist_variables(state.run_name));
  }
  std::string path(const State& state, const std::string& name) const {
    return join_path(folder(state), strict_format(name, dist_variables(state.run_name) +
                                                            time_variables(state.timestamp)));
  }

  int keep() const {
    return is_far ? options.num_remote_checkpoints_to_keep : options.num_checkpoints_to_keep;
  }
  bool saves_anything() const { return keep() != 0 || has_uploads; }
  void set_condition(SaveJob& job, const State& state) const;
  std::string remote_name(const State& state, const std::string& format) const {
    return strict_format(format, dist_variables(state.run_name) + time_variables(state.timestamp));
  }
  void begin_upload(const State& state, const std::string& path);
  void upload(Logger& logger);

  void look_around(const State& state);
  void look_at_uploads(const State& state, const Logger& logger) const;
  void know_versions(const std::vector<std::string>& paths, const Timestamp& now);

  bool is_save_due(const State& state, Event event);
  void event(State& state, Logger& logger, Event event);
  void save(State& state, Logger& logger);
  bool has_saved(const State& state) const;
  void submit(SaveJob request);
  void settle();
  void report(Logger& logger);
  void wait();
  void forget_failed();
  void check_names(const FormatVariables& dist) const;
  void check_remote_names(const FormatVariables& dist) const;
  SaverPlace place(const State& state) const;
  void recognise_saved(const State& state);

  CheckpointSaverOptions options;
  const bool is_far;
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
  std::uint64_t saves_begun = 0;
  SavedCheckpoints saved;
  bool may_rewrite_own = false;
  std::set<std::string> unusable;  // in the way, but nobody can go on from them
  std::string constant_path;  // far away: of all checkpoints; empty when their names have counters
  std::optional<std::string> constant_version;  // of what was there at init()
  bool has_uploads = false;                     // since init()
  SaverUploads uploads;
  std::vector<std::string> durable;  // to be handed over
  std::shared_ptr<FinishedQueue> finished = std::make_shared<FinishedQueue>();
  std::vector<std::string> messages;  // for the next logger that comes along
  SavePipeline pipeline;              // last: its thread uses the queue
};

// Asks the interval once an event, even when will_save() was called before it, and always: a user's
// function may count, and the scheduler remembers what it saw.
bool CheckpointSaver::Impl::is_save_due(const State& state, Event event) {
  const std::int64_t batch = state.timestamp.batch;
  if (!answer || answer->event != event || answer->batch != batch) {
    answer = {event, batch, is_due(state, event)};
  }
  return answer->is_due && last_checkpoint_batch != batch;
}

void CheckpointSaver::Impl::event(State& state, Logger& logger, Event event) {
  if (is_far) pipeline.throw_error();
  report(logger);
  const bool due = is_save_due(state, event);
  answer.reset();
  if (due) save(state, logger);
}

void CheckpointSaver::Impl::save(State& state, Logger& logger) {
  report(logger);
  last_checkpoint_batch = state.timestamp.batch;
  if (!saves_anything()) return;  // it would be removed at once
  if (has_uploads) {              // what is under way is handed over before it can be replaced
    wait();
    report(logger);
  }
  SaveJob request;
  request.path = path(state, options.filename);
  set_condition(request, state);
  request.info = checkpoint_info(state, options.weights_only);
  if (options.latest_filename && keep() != 0) {
    request.latest = path(state, *options.latest_filename);
  }
  saved.begin(request.path, state.timestamp);
  newest = {.number = ++saves_begun, .path = request.path, .timestamp = state.timestamp};
  if (has_uploads) begin_upload(state, request.path);
  if (keep() > 0) request.remove_afterwards = saved.superfluous(keep());
  try {
    request.value = checkpoint_value(
        state, {.weights_only = options.weights_only, .ignore_keys = options.ignore_keys}, &logger);
    submit(std::move(request));
  } catch (...) {
    forget_failed();
    throw;
  }
  report(logger);
}

// Whether this saver saved this very moment, and nothing says that it is not, or will not be, whole
// where it belongs. What is far away was looked at when it had arrived.
bool CheckpointSaver::Impl::has_saved(const State& state) const {
  if (!newest || newest->timestamp != state.timestamp) return false;
  if (newest->path != path(state, options.filename)) return false;
  if (has_uploads && uploads.has_newest_failed()) return false;
  const bool is_kept_here = !is_far && keep() != 0;
  return !newest->is_durable || !is_kept_here || options.store->stat(newest->path);
}

void CheckpointSaver::Impl::begin_upload(const State& state, const std::string& path) {
  SaverUploads::Names names = {
      .file = remote_name(state, *options.remote_file_name),
      .format = partial_format(*options.remote_file_name, dist_variables(state.run_name)),
      .timestamp = state.timestamp};
  if (options.latest_remote_file_name) {
    names.latest = remote_name(state, *options.latest_remote_file_name);
  }
  uploads.begin(path, std::move(names));
}

// Step 6, and what a saver that keeps nothing here removes then.
void CheckpointSaver::Impl::upload(Logger& logger) {
  while (!durable.empty()) {
    const std::string path = std::move(durable.front());
    durable.erase(durable.begin());  // also when it is refused; the others are handed over later
    // A job that goes on from before them writes its own files again, as they were when it began.
    uploads.hand_over(path, logger,
                      options.overwrite ? SaverUploads::Overwrite::kAll
                      : may_rewrite_own ? SaverUploads::Overwrite::kKnown
                                        : SaverUploads::Overwrite::kNone);
  }
  for (const auto& [path, is_there, is_replaced] : uploads.take_uploaded()) {
    messages.push_back(
        (is_replaced ? "not uploaded, because a newer one has its name there: " : "uploaded ") +
        path);
    if (keep() != 0 || !is_there) continue;
    options.store->remove(path);
    saved.remove(path);
  }
}

// Step 7. Of which version what was written last is, the pipeline knows, which may have it still
// before it.
void CheckpointSaver::Impl::set_condition(SaveJob& job, const State& state) const {
  if (!is_far || options.overwrite) return;
  job.condition = WriteCondition::absent();
  job.replaces_known = true;
  job.has_passed = [place = place(state)](const std::string& path) {
    return place.has_passed(path);
  };
}

// Which of the saves under way have failed is known when none is under way any more.
void CheckpointSaver::Impl::forget_failed() {
  try {
    wait();
  } catch (const Error& e) {  // a second one: the first is being thrown
    messages.push_back(std::string("warning: ") + e.what());
  }
}

void CheckpointSaver::Impl::submit(SaveJob request) {
  if (unusable.erase(request.path) > 0 && options.store->stat(request.path, /*follow=*/false)) {
    const std::string problem = problem_of(options.store, request.path);
    if (!problem.empty()) {  // still: somebody may have put a good one there
      options.store->rename(request.path,
                            request.path + ".damaged");  // somebody may want to look into it
      messages.push_back("renamed " + request.path + " to .damaged: " + problem);
    }
  }
  request.report = [queue = finished, number = saves_begun,
                    begin = Clock::now()](const SaveReport& done) {
    queue->push({number, done, Clock::now() - begin});
  };
  pipeline.submit(std::move(request));
}

// Step 2: what was finished and removed by now.
void CheckpointSaver::Impl::settle() {
  for (const Finished& done : finished->take()) {
    saved.finish(done.report.path);
    if (newest && newest->number == done.number) newest->is_durable = true;
    if (has_uploads) durable.push_back(done.report.path);
    for (const std::string& path : done.report.removed) {
      saved.remove(path);
    }
    messages.push_back(fmt::format("saved {}  {}  {:.2f} s", done.report.path,
                                   size_text(done.report.bytes), done.duration.count()));
  }
}

void CheckpointSaver::Impl::report(Logger& logger) {
  settle();
  upload(logger);
  for (const std::string& message : std::exchange(messages, {})) {
    logger.log_message(message);
  }
}

void CheckpointSaver::Impl::wait() {
  std::exception_ptr error;
  try {
    if (is_far) {
      pipeline.wait_until(Clock::now() + options.upload_timeout);
    } else {
      pipeline.wait();
    }
  } catch (...) {
    error = std::current_exception();
  }
  settle();
  saved.drop_unfinished();
  if (newest && !newest->is_durable) newest.reset();
  uploads.drop_failed(durable);
  if (error) std::rethrow_exception(error);
}

void CheckpointSaver::Impl::check_remote_names(const FormatVariables& dist) const {
  const auto& file = options.remote_file_name;
  const auto& latest = options.latest_remote_file_name;
  for (const auto& name : {file, latest}) {
    if (name) strict_format(*name, dist + time_variables({}));
  }
  if (!file || !latest || !shared_name(*file, *latest, dist)) return;
  throw UsageError("CheckpointSaver: a checkpoint (remote_file_name \"" + *file +
                   "\") and the link to the newest (latest_remote_file_name \"" + *latest +
                   "\") could have one name: the link would replace the checkpoint");
}

// Refuses names that cannot be, with the values of `dist`.
void CheckpointSaver::Impl::check_names(const FormatVariables& dist) const {
  check_extension(strict_format(options.filename, dist + time_variables({})));
  check_remote_names(dist);
  if (!options.latest_filename) return;
  check_extension(strict_format(*options.latest_filename, dist + time_variables({})));
  const auto both = shared_name(options.filename, *options.latest_filename, dist);
  if (both) {
    throw UsageError("CheckpointSaver: a checkpoint (filename \"" + options.filename +
                     "\") and the link to the newest (latest_filename \"" +
                     *options.latest_filename + "\") could both be named " + *both +
                     ": the link would replace the checkpoint. Give the link another name");
  }
}

// Far away: whether it can be written to, and, before anything is loaded, where the pointer stands
// and what has the name of all checkpoints, if they have one.
void CheckpointSaver::Impl::look_around(const State& state) {
  check_write_access(*options.store, folder(state), {});
  const FormatVariables dist = dist_variables(state.run_name);
  const std::string name = partial_format(options.filename, dist);
  if (partial_format(name, time_variables({})) == name) {
    constant_path = join_path(folder(state), name);
    if (const auto there = options.store->stat(constant_path)) constant_version = there->version;
  }
  if (!options.latest_filename) return;
  const std::string latest = partial_format(*options.latest_filename, dist);
  if (partial_format(latest, time_variables({})) != latest) return;  // each save has its own
  pipeline.look_at_pointer(join_path(folder(state), latest));
}

void CheckpointSaver::Impl::look_at_uploads(const State& state, const Logger& logger) const {
  const FormatVariables dist = dist_variables(state.run_name);
  SaverUploads::look({partial_format(*options.remote_file_name, dist),
                      partial_format(options.latest_remote_file_name.value_or(""), dist)},
                     logger);
}

// Training begins at `now`: of what this saver may write over the pipeline is told the versions.
// What lies further on it may not, unless it is among `paths`, also when the saver wrote it itself.
void CheckpointSaver::Impl::know_versions(const std::vector<std::string>& paths,
                                          const Timestamp& now) {
  for (const std::string& path : saved.paths()) {
    const bool may_replace = std::ranges::find(paths, path) != paths.end();
    if (saved.is_saved_further(path, now) && !may_replace) pipeline.forget(path);
  }
  for (const std::string& path : paths) {
    // Of what it wrote itself the pipeline knows the version; what another job wrote since is not
    // this one's to replace.
    if (saved.is_saved_here(path, now) || saved.is_saved_further(path, now)) continue;
    std::optional<std::string> version;
    if (path == constant_path) {
      version = constant_version;  // what another job wrote since is not what was gone on from
    } else if (const auto there = options.store->stat(path)) {
      version = there->version;
    }
    if (!version) continue;
    pipeline.may_replace(path, *version);
  }
}

SaverPlace CheckpointSaver::Impl::place(const State& state) const {
  return {.store = options.store,
          .folder = folder(state),
          .filename = options.filename,
          .weights_only = options.weights_only,
          .run_name = state.run_name,
          .now = state.timestamp};
}

// A run that was killed after its last save goes on from it. When only its epoch is to be ended
// yet, the batch is not saved again under the name that it has then.
void CheckpointSaver::Impl::recognise_saved(const State& state) {
  const SaverPlace here = place(state);
  const std::string saved_path = here.path();
  if (last_checkpoint_batch || here.now.batch == 0 || !is_saved_already(here, saved_path)) return;
  last_checkpoint_batch = here.now.batch;
  if (!options.latest_filename) return;
  const std::string latest = path(state, *options.latest_filename);
  const auto pointer = options.store->read_pointer(latest);
  if (!pointer || normal_path(pointer->target) != normal_path(saved_path)) {
    pipeline.move_pointer(latest, saved_path);  // it was killed before it could
  }
}

CheckpointSaver::CheckpointSaver(CheckpointSaverOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
CheckpointSaver::~CheckpointSaver() = default;
CheckpointSaver::CheckpointSaver(CheckpointSaver&&) noexcept = default;
CheckpointSaver& CheckpointSaver::operator=(CheckpointSaver&&) noexcept = default;

const CheckpointSaverOptions& CheckpointSaver::options() const { return impl_->options; }

void CheckpointSaver::init(State& state, Logger& logger) {
  impl_->check_names(dist_variables(state.run_name));
  const std::string folder = impl_->folder(state);
  impl_->options.store->prepare(folder);
  impl_->has_uploads =
      !impl_->is_far && impl_->options.remote_file_name && SaverUploads::has_destination(logger);
  if (impl_->is_far) impl_->look_around(state);
  if (impl_->has_uploads) impl_->look_at_uploads(state, logger);
  std::vector<std::string> formats = {impl_->options.filename};
  if (impl_->options.latest_filename) formats.push_back(*impl_->options.latest_filename);
  for (const std::string& name : remove_leftovers_of_formats(*impl_->options.store, folder, formats,
                                                             dist_variables(state.run_name))) {
    logger.log_message("removed " + join_path(folder, name) + ", left by a save that was killed");
  }
}

void CheckpointSaver::after_load(State& state, Logger& /*logger*/) {
  if (impl_->keep() != 0) impl_->recognise_saved(state);
}

void CheckpointSaver::fit_start(State& state, Logger& logger) {
  if (!impl_->saves_anything()) {
    logger.log_message("warning: num_checkpoints_to_keep is 0: nothing will be saved");
    return;
  }
  impl_->answer.reset();  // of an event that an error kept from coming
  if (impl_->last_checkpoint_batch > state.timestamp.batch) {
    impl_->last_checkpoint_batch.reset();  // time was set back: that batch is still to come
  }
  const SaverPlace place = impl_->place(state);
  adopt_saved(place, impl_->saved);
  if (!impl_->options.overwrite) {
    const FolderConflicts found = check_conflicts(place, impl_->saved, impl_->may_rewrite_own);
    if (impl_->is_far) impl_->know_versions(found.replaceable, state.timestamp);
    for (const auto& [path, problem] : found.unusable) {
      logger.log_message("warning: nobody can go on from " + path +
                         ", so it does not stop this run from saving: " + problem);
      impl_->unusable.insert(path);
    }
  }
  if (impl_->keep() != 0) impl_->recognise_saved(state);
}

void CheckpointSaver::rewrite_own_files() { impl_->may_rewrite_own = true; }

void CheckpointSaver::batch_checkpoint(State& state, Logger& logger) {
  impl_->event(state, logger, Event::kBatchCheckpoint);
}
void CheckpointSaver::epoch_checkpoint(State& state, Logger& logger) {
  impl_->event(state, logger, Event::kEpochCheckpoint);
}
void CheckpointSaver::iteration_checkpoint(State& state, Logger& logger) {
  impl_->event(state, logger, Event::kIterationCheckpoint);
}

bool CheckpointSaver::will_save(Event event, const State& state) {
  return impl_->is_save_due(state, event) && impl_->saves_anything();
}

void CheckpointSaver::fit_end(State& /*state*/, Logger& logger) {
  impl_->wait();
  impl_->report(logger);
}

void CheckpointSaver::close(State& state, Logger& logger) { fit_end(state, logger); }

Value CheckpointSaver::state_dict() const { return impl_->saved.state_dict(); }

void CheckpointSaver::load_state_dict(const Value& state) { impl_->saved.load_state_dict(state); }

void CheckpointSaver::save(State& state, Logger& logger) {
  adopt_saved(impl_->place(state), impl_->saved);
  impl_->options.store->prepare(impl_->folder(state));
  impl_->save(state, logger);
}

void CheckpointSaver::save_unless_saved(State& state, Logger& logger) {
  if (impl_->is_far) impl_->pipeline.throw_error();
  impl_->report(logger);
  if (!impl_->has_saved(state)) save(state, logger);
}

void CheckpointSaver::wait() { impl_->wait(); }

std::vector<std::string> CheckpointSaver::saved_checkpoints() {
  impl_->wait();
  std::vector<std::string> paths = impl_->saved.paths();
  Existence exists(impl_->options.store);
  std::erase_if(paths, [&exists](const std::string& path) { return !exists(path); });
  return paths;
}

}  // namespace cairn
