// When and where to save. How is SavePipeline's.
//
//  1. At a *_checkpoint event the interval says whether a save is due; one batch is saved once.
//  2. Settle: log what the background thread finished since.
//  3. Register the path, so that the checkpoint names itself, then gather: a tree of views of live
//     memory. The pipeline copies them before submit() returns; nothing changes them until then.
//  4. Submit, with the files that become superfluous. They count as there until their removal is
//     reported, and the new one is dropped when it fails.
//  5. An error of the background thread is thrown by the next save, by wait(), at the next
//     *_checkpoint event, or at fit_end.
//  6. What is saved in a folder of this machine is handed to the loggers that keep files when it is
//     durable here: at the next event, and before the next save begins (saver_uploads.h).
//  7. Of several processes rank 0 does all this. The others ask the interval at the same events,
//     and give what rank 0 cannot know of them (rng_of_all_ranks(); WholeState); whether a batch is
//     saved already they know from rank 0.
//  8. Of sharded checkpoints all ranks take part in each save (train/state/rank_saves.h). Rank 0
//     says where, and what becomes superfluous. A save fails on all of them alike, and they wait
//     for it, and throw, at the same place: before the next one, in wait() and at fit_end. Where
//     loggers keep files all ranks save once more, from the same state, as if that were the folder:
//     a saver of its own does so (`elsewhere`), and asks no interval.
//  9. In a store that is far away a save is a write of what was not there, or of the very version
//     that was found there when training began, or that this saver wrote last, unless `overwrite`
//     is set: of two jobs with one run the second is refused, and never writes over the first.
// 10. Of checkpoints that are a tar of each rank (deepspeed_config) every rank does all this in its
//     own names, and all save together, as in 8. What fails on one of them fails on all.
#include "cairn/callbacks/checkpoint_saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "callbacks/checkpoint_saver_impl.h"
#include "checkpoint/names/launch.h"
#include "checkpoint/plan/write_checkpoint.h"
#include "core/printable.h"
#include "core/size_text.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/local_store.h"
#include "train/state/checkpoint_info.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

// Whether nothing was trained between the two: the end of an epoch trains nothing. When time was
// set back, the same batch took another time.
bool is_same_batch(const Timestamp& one, const Timestamp& other) {
  return one.batch == other.batch && one.sample == other.sample && one.token == other.token &&
         one.total_wct == other.total_wct;
}

}  // namespace

// Asks the interval once an event, even when will_save() was called before it, and always: a user's
// function may count, and the scheduler remembers what it saw.
bool CheckpointSaver::Impl::is_save_due(const State& state, Event event) {
  const std::int64_t batch = state.timestamp.batch;
  if (!answer || answer->event != event || answer->batch != batch) {
    answer = {event, batch, is_due(state, event)};
  }
  return answer->is_due && last_checkpoint_batch != batch;
}

// Of several processes all come to the end of the first part, whatever rank 0 finds out then.
void CheckpointSaver::Impl::event(State& state, Logger& logger, Event event) {
  if (ranks) {
    const bool is_time = is_save_due(state, event);
    answer.reset();
    if (is_time) return save_over_ranks(state, logger, /*is_asked=*/false);
    report(logger);
    return;
  }
  std::optional<Value> gathered;
  std::optional<WholeState> whole;
  const bool is_alone = Team::of_job().is_alone();
  if (!is_alone) {
    if (is_save_due(state, event)) {
      check_replicas(state);
      gathered = gather();
    }
    answer.reset();
    // What fails behind this fails on rank 0 alone, and all go by the same at the next event.
    if (gathered) last_checkpoint_batch = state.timestamp.batch;
    if (gathered) whole.emplace(state, options.weights_only);
  }
  throw_error();
  report(logger);
  const bool due = is_alone ? is_save_due(state, event) : gathered.has_value();
  answer.reset();
  if (!due) return;
  if (!whole) whole.emplace(state, options.weights_only);  // of one process
  save(state, gathered ? std::move(*gathered) : gather(), *whole, logger);
}

// What all ranks give: before anything that can fail on rank 0 alone, which some such failures do
// not stop.
Value CheckpointSaver::Impl::gather() const {
  if (options.weights_only || !saves_anything()) return {};
  return rng_of_all_ranks();
}

// All ranks call this together, before any step that can fail on one rank alone.
void CheckpointSaver::Impl::check_replicas(const State& state) {
  if (Team::of_job().is_alone() || !saves_anything()) return;
  // The file of a sharded run has whole parameters; each rank has only its rows of them. A function
  // of ignore_keys may change what is saved.
  const bool copies = options.save_async && !ranks && !is_written_elsewhere() &&
                      state.sharding == nullptr && options.ignore_keys.empty();
  replicas.begin(state, copies);
}

void CheckpointSaver::Impl::save(State& state, Value rng, WholeState& whole, Logger& logger) {
  report(logger);
  last_checkpoint_batch = state.timestamp.batch;
  if (!saves_anything() || is_written_elsewhere()) return;  // it would be removed at once
  if (has_uploads) {  // what is under way is handed over before it can be replaced
    wait();
    report(logger);
  }
  look_at_name(state);
  SaveJob request = next_job(state);
  set_condition(request, state);
  if (has_uploads) begin_upload(state, request.path);
  try {
    const SaveCheckpointOptions what = {options.weights_only, options.ignore_keys};
    request.value = gatherer.checkpoint_value(state, std::move(rng), whole, what, &logger);
    if (!Team::of_job().is_alone()) replicas.hash_copies(state, request);
    submit(std::move(request));
  } catch (...) {
    forget_failed();
    throw;
  }
  report(logger);
}

SaveJob CheckpointSaver::Impl::next_job(const State& state) {
  SaveJob job;
  job.path = path(state, options.filename);
  job.info = checkpoint_info(state, options.weights_only);
  if (options.latest_filename && keep() != 0) job.latest = path(state, *options.latest_filename);
  saved.begin(job.path, state.timestamp);
  newest = {.number = ++saves_begun, .path = job.path, .timestamp = state.timestamp};
  if (keep() <= 0) return job;
  job.remove_afterwards = saved.superfluous(keep());
  ask_before_removal(job, state);
  return job;
}

// A file that is known only from a loaded state is removed only if it still is this run's.
void CheckpointSaver::Impl::ask_before_removal(SaveJob& job, const State& state) const {
  auto loaded = saved.loaded_among(job.remove_afterwards);
  if (loaded.empty()) return;
  job.may_remove = [here = place(state), loaded = std::move(loaded)](ObjectStore& /*store*/,
                                                                     const std::string& path) {
    const auto entry = loaded.find(path);
    return entry == loaded.end() || is_still_own(here, path, entry->second);
  };
}

// `refused`: what a destination said of an earlier file, which must not cost this save.
bool CheckpointSaver::Impl::needs_save(const State& state, Logger& logger,
                                       std::exception_ptr& refused) {
  if (is_idle() || !saves_here()) return false;
  throw_error();
  try {
    report(logger);
  } catch (...) {
    refused = std::current_exception();
  }
  return !has_saved(state);
}

// Whether this saver saved this very batch under the name that it has now, and nothing says that it
// is not, or will not be, whole where it belongs. What is far away was looked at when it had
// arrived.
bool CheckpointSaver::Impl::has_saved(const State& state) const {
  if (!newest && !saved_in_parts.empty()) {
    return last_checkpoint_batch == state.timestamp.batch &&
           saved_in_parts == path(state, options.filename);
  }
  if (!newest || !is_same_batch(newest->timestamp, state.timestamp)) return false;
  if (newest->path != path(state, options.filename)) return false;
  if (has_uploads && uploads.has_newest_failed()) return false;
  const bool is_kept_here = !is_far && keep() != 0;
  return !newest->is_durable || !is_kept_here || options.store->stat(newest->path);
}

void CheckpointSaver::Impl::begin_upload(const State& state, const std::string& path) {
  SaverUploads::Names names = {.file = name_now(state, *options.remote_file_name),
                               .format = partial_format(NameFormat(*options.remote_file_name),
                                                        dist_variables(state.run_name)),
                               .timestamp = state.timestamp};
  if (options.latest_remote_file_name) {
    names.latest = name_now(state, *options.latest_remote_file_name);
  }
  uploads.begin(path, std::move(names));
}

// Step 6, and what a saver that keeps nothing here removes then. One that is refused costs the
// others nothing: then throws the first error.
void CheckpointSaver::Impl::upload(Logger& logger) {
  std::exception_ptr refused;
  // A job that goes on from before them writes its own files again, as they were when it began.
  const auto overwrite = options.overwrite ? SaverUploads::Overwrite::kAll
                         : may_rewrite_own ? SaverUploads::Overwrite::kKnown
                                           : SaverUploads::Overwrite::kNone;
  for (const std::string& path : std::exchange(durable, {})) {
    try {
      uploads.hand_over(path, logger, overwrite);
    } catch (const std::exception& e) {
      if (refused) messages.push_back(std::string("warning: ") + e.what());
      if (!refused) refused = std::current_exception();
    }
  }
  for (const auto& [path, is_there, is_replaced] : uploads.take_uploaded()) {
    messages.push_back(
        (is_replaced ? "not uploaded, because a newer one has its name there: " : "uploaded ") +
        printable_line(path));
    if (keep() != 0 || !is_there) continue;
    options.store->remove(path);
    saved.remove(path);
  }
  if (refused) std::rethrow_exception(refused);
}

// Step 8. Of which version what was written last is, the pipeline knows, which may have it still
// before it.
void CheckpointSaver::Impl::set_condition(SaveJob& job, const State& state) const {
  if (!is_far || options.overwrite) return;
  job.condition = WriteCondition::absent();
  job.replaces_known = true;
  job.has_passed = [at = place(state)](const std::string& path) { return at.has_passed(path); };
}

// Which of the saves under way have failed is known when none is under way any more.
void CheckpointSaver::Impl::forget_failed() {
  try {
    wait();
  } catch (const Error& e) {  // a second one: the first is being thrown
    messages.push_back(std::string("warning: ") + e.what());
  }
}

// What has failed by now is not taken for saved any more.
void CheckpointSaver::Impl::throw_error() {
  try {
    pipeline.throw_error();
  } catch (...) {
    forget_failed();
    throw;
  }
}

// Puts away what is in the way of a save and nobody can go on from: somebody may want to look into
// it. In a store that is far away a folder has no other name: it is replaced.
void CheckpointSaver::Impl::clear_way(const std::string& path, const std::string& run_name) {
  const auto known = unusable.find(path);
  if (known == unusable.end()) return clear_kind(path, /*is_link=*/false);
  if (options.store->stat(path, /*follow=*/false)) {
    const auto aside = look_again(options.store, path, run_name, may_rewrite_own);
    const bool has_other_name = !is_far || ranks == nullptr || has_tars;
    if (aside && has_other_name) {
      const std::string ending = put_aside(*options.store, path, aside->ending).substr(path.size());
      messages.push_back("renamed " + printable_line(path) + " to " + ending + ": " +
                         aside->problem);
    } else if (is_far && ranks) {
      replaceable.insert(path);
    } else if (is_far) {
      pipeline.may_replace(path, known->second);
    }
  }
  unusable.erase(known);
}

// Both names of a save. With several ranks: where they learn of an error together.
void CheckpointSaver::Impl::clear_names(const std::string& path, const std::string& latest,
                                        const std::string& run_name) {
  clear_way(path, run_name);
  if (!latest.empty()) clear_kind(latest, /*is_link=*/true);
}

// Renames `path` if neither a save nor a link can replace what has this name. That is a folder
// where a file is to be, a file where a folder is to be, or a folder that holds foreign files.
void CheckpointSaver::Impl::clear_kind(const std::string& path, bool is_link) {
  if (is_far) return;
  const bool makes_folder = !is_link && ranks != nullptr && !has_tars;
  const std::string problem = what_is_in_the_way(*options.store, path, makes_folder);
  if (problem.empty()) return;
  const std::string aside = put_aside(*options.store, path, kAsideDamaged);
  messages.push_back("warning: renamed " + printable_line(path) + " to " +
                     aside.substr(path.size()) + ": " + problem);
}

void CheckpointSaver::Impl::submit(SaveJob request) {
  if (!ranks) clear_names(request.path, request.latest, request.info.run_name);
  request.report = [queue = finished, number = saves_begun,
                    begin = Clock::now()](const SaveReport& done) {
    queue->push({number, done, Clock::now() - begin});
  };
  pipeline.submit(std::move(request));
}

void CheckpointSaver::Impl::disown(const std::vector<std::string>& refused) {
  for (const std::string& path : refused) {
    if (!saved.disown(path) || is_idle()) continue;  // already reported, or another rank does it
    messages.push_back("warning: " + printable_line(path) +
                       " is not removed: it cannot be read now, is not what this run saved "
                       "there, or holds files that are no part of a checkpoint");
  }
}

// Step 2: what was finished and removed by now.
void CheckpointSaver::Impl::settle() {
  for (const FinishedSave& done : finished->take()) {
    saved.finish(done.report.path);
    if (newest && newest->number == done.number) newest->is_durable = true;
    if (has_uploads) durable.push_back(done.report.path);
    for (const std::string& path : done.report.removed) {
      saved.remove(path);
    }
    disown(done.report.refused);
    if (!done.report.warning.empty()) messages.push_back("warning: " + done.report.warning);
    if (is_written_elsewhere()) continue;  // rank 0 says it
    if (is_far && done.number == 1) say_without_locks(done.report.path);
    messages.push_back(fmt::format("saved {}  {}  {:.2f} s", printable_line(done.report.path),
                                   size_text(done.report.bytes), done.duration.count()));
  }
}

void CheckpointSaver::Impl::log_messages(Logger& logger) {
  for (const std::string& message : std::exchange(messages, {})) {
    logger.log_message(message);
  }
}

void CheckpointSaver::Impl::report(Logger& logger) {
  settle();
  upload(logger);
  log_messages(logger);
  for (const auto& saver : elsewhere)
    saver->impl_->report(logger);
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
  for (const auto& saver : elsewhere) {
    try {
      saver->impl_->wait();
    } catch (const std::exception& e) {
      if (error) messages.push_back(std::string("warning: ") + e.what());
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

CheckpointSaver::CheckpointSaver(CheckpointSaverOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
CheckpointSaver::~CheckpointSaver() = default;
CheckpointSaver::CheckpointSaver(CheckpointSaver&&) noexcept = default;
CheckpointSaver& CheckpointSaver::operator=(CheckpointSaver&&) noexcept = default;

const CheckpointSaverOptions& CheckpointSaver::options() const { return impl_->options; }
const CheckpointSaverOptions& CheckpointSaver::given_options() const { return impl_->given; }

void CheckpointSaver::init(State& state, Logger& logger) {
  impl_->forget_run_before();
  check_names(impl_->options, dist_variables(state.run_name));
  impl_->has_uploads =
      !impl_->is_far && impl_->options.remote_file_name && SaverUploads::has_destination(logger);
  // Only rank 0 may have the logger that keeps files: whether there are saves holds for all.
  const Team team = Team::of_job();
  impl_->has_uploads = team.of_first(impl_->has_uploads).as_bool();
  impl_->start = team.of_first(impl_->start).as_str();
  if (saves_over_ranks(state)) impl_->begin_sharded(state, logger);
  if (saves_rank_tars(state)) impl_->begin_tars(state);
  const std::string folder = impl_->folder(state);
  team.together("preparing " + folder, [&] {
    if (impl_->is_idle()) return;
    check_is_text(*impl_->options.store, folder, state.run_name);
    impl_->look_at_lock(state);
    impl_->options.store->prepare(folder);
    impl_->try_names(state);
    if (impl_->is_far) impl_->look_around(state);
    if (impl_->has_uploads) impl_->look_at_uploads(state, logger);
    impl_->remove_leftovers(state, logger);
  });
  if (impl_->ranks && !impl_->has_tars && !impl_->is_far) impl_->prepare_machines(state, logger);
}

// Names may have folders in them. The start ends here with errors that would else end the first
// save: a folder takes no file, a file or a link stands in its place, or a name is too long.
void CheckpointSaver::Impl::try_names(const State& state) {
  if (is_far) return;
  const std::string home = folder(state);
  for (const std::string& name : {path(state, options.filename), latest_path(state)}) {
    if (name.empty()) continue;
    options.store->stat(name, /*follow=*/false);
    std::string where = parent_path(name);
    while (where.size() > home.size() && !options.store->stat(where, /*follow=*/false))
      where = parent_path(where);
    if (where.size() > home.size()) options.store->begin(join_path(where, "probe"));
  }
}

void CheckpointSaver::after_load(State& state, Logger& logger) {
  Team::of_job().together("looking at what is saved", [&] {
    if (impl_->keep() != 0 && !impl_->is_idle()) impl_->recognise_saved(state);
    impl_->check_room(state);
  });
  impl_->log_messages(logger);
  impl_->agree_on_last_batch();
  for (const auto& saver : impl_->elsewhere)
    saver->after_load(state, logger);
}

void CheckpointSaver::fit_start(State& state, Logger& logger) {
  if (!impl_->saves_anything()) {
    logger.log_message("warning: num_checkpoints_to_keep is 0: nothing will be saved");
    return;
  }
  impl_->begin_fit(state, logger);
  for (const auto& saver : impl_->elsewhere)
    saver->fit_start(state, logger);
}

void CheckpointSaver::rewrite_own_files(bool may) {
  impl_->may_rewrite_own = may;
  for (const auto& saver : impl_->elsewhere)
    saver->rewrite_own_files(may);
}

void CheckpointSaver::goes_on_from(const std::string& path) { impl_->gone_on_from = path; }

std::optional<Pointer> CheckpointSaver::seen_latest(const State& state) const {
  return impl_->pipeline.seen_pointer(impl_->latest_path(state));
}

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

void CheckpointSaver::fit_end(State& state, Logger& logger) {
  impl_->replicas.compare();
  close(state, logger);
}

// Waits for no other rank: after a failure the others may be in another call.
void CheckpointSaver::close(State& /*state*/, Logger& logger) {
  impl_->gatherer = {};  // whoever replaces the weights now need not have both in memory
  impl_->pipeline.let_go();
  const auto let_go = [this] {
    impl_->run_lock.reset();  // no save is under way any more
    impl_->pipeline.let_go();
    for (const auto& saver : impl_->elsewhere) {
      saver->impl_->run_lock.reset();
      saver->impl_->pipeline.let_go();
    }
  };
  try {
    impl_->wait();
  } catch (...) {
    let_go();
    throw;
  }
  let_go();  // what the saves remembered that were under way
  impl_->report(logger);
}

// Of the place that keeps most: whose folder it is, adopt_saved() finds out in each.
Value CheckpointSaver::state_dict() const {
  const auto kept = [](int keep) { return keep < 0 ? std::numeric_limits<int>::max() : keep; };
  if (impl_->elsewhere.empty()) return impl_->saved.state_dict();
  const Impl& other = *impl_->elsewhere.front()->impl_;
  if (kept(other.keep()) <= kept(impl_->keep())) return impl_->saved.state_dict();
  // What is saved here first is not among those there yet, and names itself all the same.
  SavedCheckpoints saved = other.saved;
  const auto& own = impl_->newest;
  if (own && !(other.newest && is_same_batch(other.newest->timestamp, own->timestamp))) {
    saved.begin(own->path, own->timestamp);
  }
  return saved.state_dict();
}

void CheckpointSaver::load_state_dict(const Value& state) {
  impl_->saved.load_state_dict(state);
  for (const auto& saver : impl_->elsewhere)
    saver->load_state_dict(state);
}

void CheckpointSaver::save(State& state, Logger& logger) {
  if (impl_->ranks) return impl_->save_over_ranks(state, logger, /*is_asked=*/true);
  impl_->check_replicas(state);
  Value rng = impl_->gather();
  WholeState whole(state, impl_->options.weights_only);
  if (!is_written_elsewhere()) impl_->prepare(state);
  impl_->save(state, std::move(rng), whole, logger);
}

void CheckpointSaver::save_unless_saved(State& state, Logger& logger) {
  std::exception_ptr refused;
  std::exception_ptr failed;
  List needed;  // here, and in each place elsewhere
  const Team team = Team::of_job();
  try {
    team.together("looking at what is saved", [&] {
      if (impl_->ranks) impl_->wait();  // throws on all ranks, or on none
      needed.emplace_back(impl_->needs_save(state, logger, refused));
      for (const auto& saver : impl_->elsewhere)
        needed.emplace_back(saver->impl_->needs_save(state, logger, refused));
    });
  } catch (...) {
    failed = std::current_exception();
    needed.clear();
  }
  // What rank 0 finds holds for all: they only give what it lacks. Of tars each has its own.
  if (!team.is_alone() && impl_->has_tars) {
    const auto all = team.of_all(std::move(needed));
    needed = {std::ranges::any_of(all, [](const Value& of_rank) {
      return !of_rank.as_items().empty() && of_rank.as_items().front().as_bool();
    })};
  } else {
    needed = team.of_first(std::move(needed)).as_items();
  }
  if (failed) std::rethrow_exception(failed);
  const bool is_needed =
      std::ranges::any_of(needed, [](const Value& place) { return place.as_bool(); });
  if (is_needed && impl_->ranks) {
    impl_->save_over_ranks(state, logger, /*is_asked=*/true, needed);
  } else if (is_needed) {
    save(state, logger);
  }
  if (refused) std::rethrow_exception(refused);
}

void CheckpointSaver::wait() { impl_->wait(); }

std::vector<std::string> CheckpointSaver::saved_checkpoints() {
  std::vector<std::string> paths;
  for (auto& [path, timestamp] : impl_->finished_saves())
    paths.push_back(std::move(path));
  return paths;
}

std::map<std::string, Timestamp> CheckpointSaver::all_saved_checkpoints_to_timestamp() {
  const auto saves = impl_->finished_saves();
  return {saves.begin(), saves.end()};
}

// Those that are still there, oldest first.
std::vector<std::pair<std::string, Timestamp>> CheckpointSaver::Impl::finished_saves() {
  wait();
  if (is_idle()) return {};
  auto saves = saved.finished();
  Existence exists(options.store);
  std::erase_if(saves, [&exists](const auto& one) { return !exists(one.first); });
  return saves;
}

}  // namespace cairn
