// Decides when to save. Destination decides where, CheckpointLayout what, and SavePipeline how.
//
//  1. At a *_checkpoint event, the interval says whether a save is due. Each batch is saved once.
//     All ranks ask the interval at the same events.
//  2. The layout gathers everything that needs other ranks, before anything can fail on rank 0
//     alone.
//  3. Errors of earlier saves are thrown, and finished saves are logged: before the next save, in
//     wait(), at the next *_checkpoint event and at fit_end. If all ranks take a role in a save,
//     the save fails on all of them alike. All ranks wait for it, and throw its error, at the same
//     place.
//  4. The layout saves in each place: in the save folder, and, if all ranks write a checkpoint
//     together, at each logger that keeps files.
//  5. A file that is durable on this machine is handed to the loggers that keep files: at the next
//     event, and before the next save begins (saver_uploads.h).
//
// In a far store, without `overwrite`, a save may replace only the version that the store had when
// training began, or that this saver wrote last. If two jobs train one run, the second job is
// refused, and never overwrites the files of the first.
#include "cairn/callbacks/checkpoint_saver.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <ranges>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "core/text/printable.h"
#include "core/text/run_messages.h"
#include "dist/team.h"
#include "io/durable/atomic_file.h"
#include "saving/logger_places.h"
#include "saving/places/destination.h"
#include "saving/same_moment.h"
#include "saving/saver_options.h"
#include "saving/saver_start.h"
#include "saving/saver_uploads.h"
#include "saving/trainer_calls.h"
#include "train/state/checkpoint_form.h"
#include "train/state/gather/checkpoint_info.h"
#include "train/state/gather/rank_saves.h"
#include "train/state/named_metric.h"
#include "train/state/replica_check.h"

namespace cairn {
namespace {

// "eval/CrossEntropy", or as logged, "metrics/eval/CrossEntropy": {"eval", "CrossEntropy"}.
std::pair<std::string, std::string> label_and_name(const KeepBest& best) {
  constexpr std::string_view kLogged = "metrics/";
  const std::size_t begin = best.metric.starts_with(kLogged) ? kLogged.size() : 0;
  const std::size_t slash = best.metric.rfind('/');
  if (slash == std::string::npos || slash < begin) return {"", best.metric};
  return {best.metric.substr(begin, slash - begin), best.metric.substr(slash + 1)};
}

bool is_label_of(const KeepBest& best, const std::string& label) {
  return label_and_name(best).first == label;
}

std::unique_ptr<CheckpointLayout> layout_of(const State& state) {
  if (State::CheckpointForm::of(state).content) return dict_file();
  if (saves_over_ranks(state)) return sharded_folder();
  if (saves_rank_tars(state)) return rank_tar();
  return one_file();
}

}  // namespace

struct CheckpointSaver::Impl {
  explicit Impl(CheckpointSaverOptions options)
      : given(checked_options(std::move(options))),
        is_due(create_interval_scheduler(given.save_interval)) {
    if (given.keep_best && given.num_checkpoints_to_keep.value_or(-1) < 1 &&
        given.num_remote_checkpoints_to_keep.value_or(-1) < 1) {
      throw UsageError(
          "keep_best keeps checkpoints beside the newest ones, and now all are kept: set "
          "num_checkpoints_to_keep, or num_remote_checkpoints_to_keep in a store");
    }
    check_names(given, dist_variables("?"));  // As far as names are known; init() knows the run.
    add_destination(given, one_file(), /*feeds_uploads=*/false);
  }

  Destination& home() const { return *destinations.front(); }
  void add_destination(CheckpointSaverOptions options, std::unique_ptr<CheckpointLayout> layout,
                       bool feeds_uploads) {
    destinations.push_back(std::make_unique<Destination>(std::move(options), std::move(layout),
                                                         feeds_uploads, run, messages));
  }
  void warn_of_idle_limits(Logger& logger) const;
  // The same on all ranks.
  bool saves_anything() const { return home().saves_here() || destinations.size() > 1; }

  void init(State& state, Logger& logger);
  bool is_save_due(const State& state, Event event);
  void event(State& state, Logger& logger, Event event);
  JoinedState join(const State& state);
  void note_metric(const State& state);
  void note_metric(const Timestamp& now, std::optional<double> value);
  void save(const SaveRequest& what, JoinedState joined, const List& needed = {});
  List places_to_leave_out(const SaveRequest& what);
  bool needs_save(Destination& place, const State& state, Logger& logger,
                  std::exception_ptr& refused);
  void save_unless_saved(State& state, Logger& logger);
  void report(Logger& logger);
  void log_messages(Logger& logger);
  void begin_upload(const State& state);
  void upload(Logger& logger);
  void for_each_destination(const std::function<void(Destination&, std::size_t index)>& act);
  void wait(void (Destination::*how)() = &Destination::wait);

  const CheckpointSaverOptions given;
  RunFacts run = {.job = random_digits()};
  std::vector<std::string> messages;  // For the logger of the next event.
  // The save folder first, then the loggers' places (places_of_loggers()).
  std::vector<std::unique_ptr<Destination>> destinations;
  std::function<bool(const State&, Event)> is_due;
  struct Answer {
    Event event;
    std::int64_t batch;
    bool is_due;
  };
  std::optional<Answer> answer;         // The interval's answer, from will_save() until the event.
  std::optional<SaverUploads> uploads;  // Only for single files; nullopt if no logger keeps files.
  bool may_be_away = false;             // Whether some place is in a far store.
  ReplicaCheck replicas;                // For several processes.
};

// Forgets what another Trainer saved with this saver: this run must not count, replace or remove
// those checkpoints. Only the right to rewrite the run's own files, which was set earlier, stays.
void CheckpointSaver::Impl::init(State& state, Logger& logger) {
  run.resumed_from.reset();
  run.metric.reset();
  is_due = create_interval_scheduler(given.save_interval);
  answer.reset();
  // The logger that keeps files may be on rank 0 alone. The answer must be the same on all ranks.
  const Team team = Team::of_job();
  const Value of_first = team.broadcast_from_first(List{given.store->names_are_paths() &&
                                                            given.remote_file_name.has_value() &&
                                                            SaverUploads::has_destination(logger),
                                                        is_far(given)});
  const bool has_uploads = of_first.as_items().at(0).as_bool();
  may_be_away = has_uploads || of_first.as_items().at(1).as_bool();
  run.job = team.broadcast_from_first(run.job).as_str();
  CheckpointSaverOptions options = given;
  auto layout = layout_of(state);
  layout->adapt(options, state, has_uploads);
  check_names(options, dist_variables(state.run_name));
  const bool feeds_uploads = has_uploads && !layout->is_of_all_ranks();
  std::vector<CheckpointSaverOptions> of_loggers;
  if (layout->makes_folders()) of_loggers = places_of_loggers(options, state, logger);
  destinations.clear();
  uploads.reset();
  if (feeds_uploads)
    uploads.emplace(given.num_remote_checkpoints_to_keep.value_or(-1), given.keep_best);
  add_destination(options, std::move(layout), feeds_uploads);
  for (auto& of_logger : of_loggers)
    add_destination(std::move(of_logger), sharded_folder(), /*feeds_uploads=*/false);
  for (const auto& place : destinations | std::views::reverse)  // The save folder last.
    place->prepare(state, logger);
  warn_of_idle_limits(logger);
}

// Each of the two limits counts in one kind of place only. A run with the wrong one fills its disk.
void CheckpointSaver::Impl::warn_of_idle_limits(Logger& logger) const {
  const bool is_far_away = is_far(given);
  const bool limits_here = given.num_checkpoints_to_keep.value_or(-1) > 0;
  const bool limits_there = given.num_remote_checkpoints_to_keep.value_or(-1) > 0;
  if (is_far_away && limits_here && !limits_there) {
    logger.log_message(
        "warning: num_checkpoints_to_keep counts files on this machine, and the checkpoints are in "
        "a store: all are kept, unless num_remote_checkpoints_to_keep is set");
  }
  if (!is_far_away && !may_be_away && limits_there && !limits_here) {
    logger.log_message(
        "warning: num_remote_checkpoints_to_keep counts checkpoints in stores that are far away, "
        "and these are on this machine: all are kept, unless num_checkpoints_to_keep is set");
  }
}

// Asks the interval exactly once for each event, even if will_save() was called before the event: a
// user's function may count calls, and the scheduler remembers what it saw.
bool CheckpointSaver::Impl::is_save_due(const State& state, Event event) {
  const std::int64_t batch = state.timestamp.batch;
  if (!answer || answer->event != event || answer->batch != batch) {
    answer = {event, batch, is_due(state, event)};
  }
  return answer->is_due && home().last_due != batch;
}

void CheckpointSaver::Impl::event(State& state, Logger& logger, Event event) {
  const bool is_time = is_save_due(state, event);
  answer.reset();
  JoinedState joined;
  if (is_time) {
    joined = join(state);
    // From here on, rank 0 may fail alone. At the next event all ranks must answer alike.
    if (!Team::of_job().is_alone()) home().last_due = state.timestamp.batch;
  }
  if (!home().layout().is_of_all_ranks()) home().throw_error();
  report(logger);
  if (is_time) save({state, logger, replicas}, std::move(joined));
}

// Collective. Step 2.
JoinedState CheckpointSaver::Impl::join(const State& state) {
  if (!saves_anything()) return {};
  if (given.keep_best && is_label_of(*given.keep_best, state.dataloader_label)) note_metric(state);
  const CheckpointLayout& layout = home().layout();
  if (!Team::of_job().is_alone() && state.model)
    replicas.begin(state, layout.hashes_copies(state, home().options()));
  return layout.join(state, given.weights_only);
}

// Collective. The metric of the data in use has just been computed.
void CheckpointSaver::Impl::note_metric(const State& state) {
  const auto [label, name] = label_and_name(*given.keep_best);
  note_metric(state.timestamp, state.metric_value(label, name));
}

// Collective. Rank 0's value counts, so that all ranks keep the same checkpoints. The first value
// of a moment stands: eval() with other data comes later.
void CheckpointSaver::Impl::note_metric(const Timestamp& now, std::optional<double> value) {
  if (run.metric && is_same_moment(run.metric->first, now)) return;
  const Value own = value ? Value(*value) : Value(None{});
  const Value of_first = Team::of_job().broadcast_from_first(own);
  if (of_first.is_none()) return;
  run.metric = {now, of_first.as_float()};
  for (const auto& place : destinations)
    place->saved().note_metric(now, run.metric->second);
  if (uploads) uploads->note_metric(now, run.metric->second);
}

// Collective. Step 4. `needed`: whether each place lacks the save. Empty: all of them lack it. An
// error in one place does not keep the others from saving.
void CheckpointSaver::Impl::save(const SaveRequest& what, JoinedState joined, const List& needed) {
  const std::int64_t batch = what.state.timestamp.batch;
  const List left_out = places_to_leave_out(what);
  const auto is_left_out = [&](std::size_t index) {
    return !left_out.empty() && left_out.at(index).as_bool();
  };
  if (uploads) {
    wait();  // Loggers get the pending save before it can be replaced.
  } else if (home().layout().is_of_all_ranks()) {
    for_each_destination([&](Destination& place, std::size_t index) {
      if (!is_left_out(index)) place.wait();
    });
  }
  report(what.logger);
  home().last_due = batch;
  if (!saves_anything()) return;
  if (uploads) begin_upload(what.state);
  bool has_lost_ranks = false;
  for_each_destination([&](Destination& place, std::size_t index) {
    const bool is_needed = needed.empty() || needed.at(index).as_bool();
    const bool has_it = index > 0 && !what.is_asked && place.last_due == batch;
    if (has_lost_ranks || !is_needed || has_it || !place.saves_here()) return;
    place.last_due = batch;
    if (is_left_out(index)) return;
    try {
      place.layout().save(place, what, std::move(joined));
    } catch (const dist::DistError&) {
      has_lost_ranks = true;
      throw;
    }
  });
  report(what.logger);
}

// Collective. Returns for each destination whether all ranks leave out this joint save. All ranks
// leave it out if it would wait for an earlier save that waits for its store. Empty: no destination
// leaves it out. The last save of a run is never left out.
List CheckpointSaver::Impl::places_to_leave_out(const SaveRequest& what) {
  if (!may_be_away || what.is_asked || is_after_last_batch(what.state)) return {};
  if (!home().layout().is_of_all_ranks()) return {};
  const Team team = Team::of_job();
  List own;
  for (const auto& place : destinations)
    own.emplace_back(place->is_store_unreachable());
  const auto all = team.gather_all(std::move(own));
  List left_out;
  for (std::size_t i = 0; i < destinations.size(); ++i) {
    const bool is_store_unreachable = std::ranges::any_of(
        all, [i](const Value& of_rank) { return of_rank.as_items().at(i).as_bool(); });
    left_out.emplace_back(is_store_unreachable);
    if (!is_store_unreachable || !team.is_first()) continue;
    messages.push_back("skipped " +
                       printable_line(save_path(destinations[i]->options(), what.state)) +
                       ": the store cannot be reached, and the previous save still waits for it");
  }
  return left_out;
}

// Whether this batch must be saved in this place: it is not saved there, or the last upload failed.
// `refused` gets a logger's error about an earlier file, which must not prevent this save.
bool CheckpointSaver::Impl::needs_save(Destination& place, const State& state, Logger& logger,
                                       std::exception_ptr& refused) {
  if (!place.layout().is_writer() || !place.saves_here()) return false;
  place.throw_error();
  try {
    report(logger);
  } catch (...) {
    refused = std::current_exception();
  }
  return (uploads && uploads->has_newest_failed()) || !place.has_saved(state);
}

void CheckpointSaver::Impl::save_unless_saved(State& state, Logger& logger) {
  std::exception_ptr refused;
  std::exception_ptr failed;
  List needed;  // For each place: whether it lacks the save.
  const Team team = Team::of_job();
  const CheckpointLayout& layout = home().layout();
  try {
    team.run_on_all("looking at what is saved", [&] {
      if (layout.is_of_all_ranks()) wait();  // Throws on all ranks, or on none.
      for (const auto& place : destinations)
        needed.emplace_back(needs_save(*place, state, logger, refused));
    });
  } catch (...) {
    failed = std::current_exception();
    needed.clear();
  }
  const auto is_needed = [](const Value& of_rank) {
    return std::ranges::any_of(of_rank.as_items(),
                               [](const Value& place) { return place.as_bool(); });
  };
  if (layout.is_of_all_ranks() && !layout.makes_folders()) {
    // Each rank knows only its own tar. If one rank lacks its tar, all save again.
    needed = {std::ranges::any_of(team.gather_all(std::move(needed)), is_needed)};
  } else {
    needed =
        team.broadcast_from_first(std::move(needed)).as_items();  // The other ranks do not decide.
  }
  if (failed) std::rethrow_exception(failed);
  if (is_needed(needed)) save({state, logger, replicas, /*is_asked=*/true}, join(state), needed);
  if (refused) std::rethrow_exception(refused);
}

void CheckpointSaver::Impl::report(Logger& logger) {
  for (const auto& place : destinations)
    place->settle();
  if (uploads) upload(logger);
  log_messages(logger);
}

void CheckpointSaver::Impl::log_messages(Logger& logger) {
  for (const std::string& message : std::exchange(messages, {}))
    logger.log_message(message);
}

void CheckpointSaver::Impl::begin_upload(const State& state) {
  SaverUploads::Names names = {
      .file = name_now(*given.remote_file_name, state),
      .format = partial_format(NameFormat(*given.remote_file_name), dist_variables(state.run_name)),
      .timestamp = state.timestamp};
  if (run.metric && is_same_moment(run.metric->first, state.timestamp))
    names.metric = run.metric->second;
  if (given.latest_remote_file_name) names.latest = name_now(*given.latest_remote_file_name, state);
  uploads->begin(save_path(home().options(), state), std::move(names));
}

// Step 5. Then a saver that keeps no files on this machine removes the uploaded files. If a logger
// refuses a file, the other files are still handed over; then the first error is thrown.
void CheckpointSaver::Impl::upload(Logger& logger) {
  std::exception_ptr refused;
  // A job that resumes from before its own files replaces them, if they are unchanged since it
  // began.
  const Replace replace = given.overwrite       ? Replace::kAll
                          : run.may_rewrite_own ? Replace::kOwn
                                                : Replace::kNever;
  for (const std::string& path : std::exchange(home().durable(), {})) {
    try {
      uploads->hand_over(path, logger, replace);
    } catch (const std::exception& e) {
      if (refused) messages.push_back(std::string("warning: ") + e.what());
      if (!refused) refused = std::current_exception();
    }
  }
  for (const auto& [path, is_there, is_replaced] : uploads->take_uploaded()) {
    messages.push_back(
        (is_replaced ? "not uploaded, because a newer upload has its name: "
                     : std::string(kUploadedMessage)) +
        printable_line(path));
    if (checkpoints_to_keep(given) != 0 || !is_there) continue;
    given.store->remove(path);
    home().saved().remove(path);
  }
  if (refused) std::rethrow_exception(refused);
}

// Calls `act` for all destinations, then throws the first error. Later errors become warnings.
void CheckpointSaver::Impl::for_each_destination(
    const std::function<void(Destination&, std::size_t index)>& act) {
  std::exception_ptr first;
  for (std::size_t index = 0; index < destinations.size(); ++index) {
    try {
      act(*destinations[index], index);
    } catch (const std::exception& e) {
      if (first) messages.push_back(std::string("warning: ") + e.what());
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

void CheckpointSaver::Impl::wait(void (Destination::*how)()) {
  std::exception_ptr error;
  try {
    for_each_destination([how](Destination& place, std::size_t /*index*/) { (place.*how)(); });
  } catch (...) {
    error = std::current_exception();
  }
  if (uploads) uploads->drop_failed(home().durable());
  if (error) std::rethrow_exception(error);
}

CheckpointSaver::CheckpointSaver(CheckpointSaverOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
CheckpointSaver::~CheckpointSaver() = default;
CheckpointSaver::CheckpointSaver(CheckpointSaver&&) noexcept = default;
CheckpointSaver& CheckpointSaver::operator=(CheckpointSaver&&) noexcept = default;

const CheckpointSaverOptions& CheckpointSaver::options() const { return impl_->home().options(); }

void CheckpointSaver::init(State& state, Logger& logger) { impl_->init(state, logger); }

void CheckpointSaver::after_load(State& state, Logger& logger) {
  for (const auto& place : impl_->destinations)
    place->after_load(state, logger);
  impl_->log_messages(logger);
}

void CheckpointSaver::fit_start(State& state, Logger& logger) {
  if (!impl_->saves_anything()) {
    logger.log_message("warning: num_checkpoints_to_keep is 0: nothing will be saved");
    return;
  }
  impl_->answer.reset();  // The answer may be about an event that an error prevented.
  if (impl_->given.keep_best && state.model) {
    const auto [label, name] = label_and_name(*impl_->given.keep_best);
    require_metric(state, {.asker = "CheckpointSaver",
                           .label_option = "the label in keep_best.metric",
                           .label = label,
                           .metric = name});
  }
  for (const auto& place : impl_->destinations)
    place->begin_fit(state, logger);
  impl_->log_messages(logger);
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

void CheckpointSaver::eval_end(State& state, Logger& /*logger*/) {
  const auto& best = impl_->given.keep_best;
  if (best && is_label_of(*best, state.dataloader_label)) impl_->note_metric(state);
}

bool CheckpointSaver::will_save(Event event, const State& state) {
  return impl_->is_save_due(state, event) && impl_->saves_anything();
}

void CheckpointSaver::fit_end(State& state, Logger& logger) {
  impl_->replicas.compare();
  close(state, logger);
}

// Does not wait for other ranks: after a failure, they may be in another call.
void CheckpointSaver::close(State& /*state*/, Logger& logger) {
  impl_->wait(&Destination::close);
  impl_->report(logger);
}

// Returns the state of the place that keeps most checkpoints. When the state is loaded,
// adopt_saved() finds out in each place which folder it describes.
Value CheckpointSaver::state_dict() const {
  const auto kept = [](const Destination& place) {
    const int keep = checkpoints_to_keep(place.options());
    return keep < 0 ? std::numeric_limits<int>::max() : keep;
  };
  SavedCheckpoints& own = impl_->home().saved();
  if (impl_->destinations.size() == 1) return own.state_dict();
  Destination& other = *impl_->destinations[1];
  if (kept(other) <= kept(impl_->home())) return own.state_dict();
  // The newest save may not be in the other place yet, but a checkpoint must name itself.
  SavedCheckpoints saved = other.saved();
  const auto newest = own.newest();
  const auto there = saved.newest();
  if (newest && !(there && there->timestamp == newest->timestamp))
    saved.begin(newest->path, newest->timestamp, newest->metric);
  return saved.state_dict();
}

void CheckpointSaver::load_state_dict(const Value& state) {
  for (const auto& place : impl_->destinations)
    place->saved().load_state_dict(state);
}

void CheckpointSaver::save(State& state, Logger& logger) {
  impl_->save({state, logger, impl_->replicas, /*is_asked=*/true}, impl_->join(state));
}

void CheckpointSaver::save_unless_saved(State& state, Logger& logger) {
  impl_->save_unless_saved(state, logger);
}

void CheckpointSaver::remove_superfluous(State& state, Logger& logger) {
  for (const auto& place : impl_->destinations)
    place->remove_superfluous(state, logger);
  impl_->log_messages(logger);
}

void CheckpointSaver::wait() { impl_->wait(); }

std::vector<std::string> CheckpointSaver::saved_checkpoints() {
  wait();
  std::vector<std::string> paths;
  for (auto& [path, timestamp] : impl_->home().finished_saves())
    paths.push_back(std::move(path));
  return paths;
}

std::map<std::string, Timestamp> CheckpointSaver::all_saved_checkpoints_to_timestamp() {
  wait();
  const auto saves = impl_->home().finished_saves();
  return {saves.begin(), saves.end()};
}

std::vector<std::pair<std::string, double>> CheckpointSaver::best_checkpoints() {
  wait();
  const auto there = impl_->home().finished_saves();
  auto best = impl_->home().saved().best();
  std::erase_if(best, [&](const auto& one) {
    return std::ranges::find(there, one.first, [](const auto& save) { return save.first; }) ==
           there.end();
  });
  return best;
}

void CheckpointSaver::TrainerCalls::note_metric(CheckpointSaver& saver, const State& state,
                                                double value) {
  saver.impl_->note_metric(state.timestamp, value);
}

void CheckpointSaver::TrainerCalls::rewrite_own_files(CheckpointSaver& saver, bool may) {
  saver.impl_->run.may_rewrite_own = may;
}

void CheckpointSaver::TrainerCalls::set_loaded_checkpoint(CheckpointSaver& saver,
                                                          const std::string& path) {
  saver.impl_->run.resumed_from = path;
}

std::optional<Pointer> CheckpointSaver::TrainerCalls::seen_latest(const CheckpointSaver& saver,
                                                                  const State& state) {
  return saver.impl_->home().link_at_start(state);
}

void CheckpointSaver::TrainerCalls::after_uploads(CheckpointSaver& saver, Logger& logger) {
  saver.impl_->report(logger);
}

const CheckpointSaverOptions& CheckpointSaver::TrainerCalls::given_options(
    const CheckpointSaver& saver) {
  return saver.impl_->given;
}

}  // namespace cairn
