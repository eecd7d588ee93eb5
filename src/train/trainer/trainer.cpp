#include "cairn/train/trainer.h"

#include <fmt/format.h>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/callbacks/profiler.h"
#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/loggers/file_logger.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state_dict.h"

#include "core/text/printable.h"
#include "core/text/run_messages.h"
#include "saving/check_savers.h"
#include "saving/trainer_calls.h"
#include "storage/local/local_store.h"
#include "train/loop/fit_loop.h"
#include "train/loop/iteration_length.h"
#include "train/loop/predict_loop.h"
#include "train/state/checkpoint_form.h"
#include "train/trainer/rank_facts.h"
#include "train/trainer/ranks.h"
#include "train/trainer/trainer_impl.h"

namespace cairn {
namespace {

// Serves requests from outside during one fit().
class RequestService {
 public:
  // Makes `requests` on the first use. nullopt: there are none to serve.
  RequestService(std::optional<StopRequest>& requests, std::optional<StopRequestOptions> options)
      : requests_(requests) {
    if (!options) return;
    if (requests) {
      requests->resume_handling();
    } else {
      requests.emplace(std::move(*options));
    }
  }
  ~RequestService() {
    if (requests_) requests_->stop_handling();
  }
  RequestService(const RequestService&) = delete;
  RequestService& operator=(const RequestService&) = delete;

 private:
  std::optional<StopRequest>& requests_;
};

// For a destructor. Catches exceptions of the logger, too.
void warn_quietly(Logger& logger, const std::exception& error) noexcept {
  try {
    logger.log_message(std::string("warning: closing the Trainer failed: ") + error.what());
  } catch (const std::exception&) {  // For example, no memory for the message.
  }
}

// A checkpoint that knows no calls comes from an older cairn, from Composer, or from another
// program. A fit() with a duration is then taken to have begun with the run, if that is possible.
void guess_begin(const State& state, Logger& logger, const Time& duration) {
  const Time& end = *state.max_duration;
  const Time now = state.timestamp.get(end.unit());
  if (now > end) {
    throw UsageError("fit(): the checkpoint does not say where a fit() of " + duration.to_string() +
                     " began, and training is at " + now.to_string() +
                     ": give max_duration instead of a duration");
  }
  logger.log_message("warning: the checkpoint does not say where a fit() of " +
                     duration.to_string() + " began: it is taken to have begun with the run, and " +
                     "ends at " + end.to_string());
}

Requests merge_requests(const Requests& one, const Requests& other) {
  const bool is_all = one.reason.empty() || other.reason.empty();
  return {.save = one.save || other.save,
          .stop = one.stop || other.stop,
          .reason = one.reason + (is_all ? "" : ", ") + other.reason};
}

}  // namespace

Trainer::Trainer(TrainerOptions options)
    : impl_(std::make_unique<Impl>(resolve(std::move(options)))) {}

Trainer::~Trainer() {
  if (std::uncaught_exceptions() > impl_->exceptions_around) impl_->ended_well = false;
  try {
    close();
  } catch (const std::exception& error) {
    warn_quietly(impl_->logger, error);
  }
}

FitResult Trainer::fit(FitOptions options) try {
  return impl_->fit(std::move(options));
} catch (...) {
  impl_->log_failure();
  throw;
}

void Trainer::eval(const std::optional<EvaluatorList>& evaluators,
                   std::optional<std::int64_t> subset_num_batches) {
  impl_->run_unattended([&] {
    if (evaluators) check_loaders_of_rank(*evaluators);
    impl_->evaluators.run_standalone(evaluators, subset_num_batches.value_or(-1));
  });
}

std::vector<Outputs> Trainer::predict(DataSpecOrLoader dataloader,
                                      std::optional<std::int64_t> subset_num_batches,
                                      bool return_outputs) {
  std::vector<Outputs> outputs;
  impl_->run_unattended([&] {
    outputs =
        run_predict(impl_->context, dataloader, subset_num_batches.value_or(-1), return_outputs);
  });
  return outputs;
}

void Trainer::close() {
  std::exception_ptr failed_save;
  try {
    impl_->finish_saves();
  } catch (...) {
    failed_save = std::current_exception();
    impl_->log_failure();
  }
  impl_->engine.close();
  impl_->leave_together();
  impl_->outside.requests.reset();
  impl_->outside.signals.reset();
  if (failed_save) std::rethrow_exception(failed_save);
}

State& Trainer::state() { return impl_->state; }
Logger& Trainer::logger() { return impl_->logger; }

std::vector<std::string> Trainer::saved_checkpoints() {
  const dist::LongWork long_work;
  CheckpointSaver* saver = impl_->reference_saver();
  return saver == nullptr ? std::vector<std::string>() : saver->saved_checkpoints();
}

std::map<std::string, Timestamp> Trainer::all_saved_checkpoints_to_timestamp() {
  const dist::LongWork long_work;
  CheckpointSaver* saver = impl_->reference_saver();
  return saver == nullptr ? std::map<std::string, Timestamp>()
                          : saver->all_saved_checkpoints_to_timestamp();
}

std::vector<std::pair<std::string, double>> Trainer::best_checkpoints() {
  const dist::LongWork long_work;
  CheckpointSaver* saver = impl_->reference_saver();
  return saver == nullptr ? std::vector<std::pair<std::string, double>>()
                          : saver->best_checkpoints();
}

std::string Trainer::save_checkpoint(const std::string& name, bool weights_only) {
  return cairn::save_checkpoint(
      impl_->state, name,
      {.weights_only = weights_only, .store = impl_->options.save_object_store});
}

void Trainer::save_checkpoint_to_save_folder() {
  CheckpointSaver* saver = impl_->reference_saver();
  if (saver == nullptr) {
    throw UsageError(
        "save_checkpoint_to_save_folder() needs save_folder, or a CheckpointSaver in callbacks");
  }
  const dist::LongWork long_work;
  saver->save(impl_->state, impl_->logger);
}

void Trainer::Impl::for_each_saver(const std::function<void(CheckpointSaver&)>& act) {
  const dist::LongWork long_work;
  std::exception_ptr failed;
  for (CheckpointSaver* saver : savers_among(state.callbacks)) {
    try {
      act(*saver);
    } catch (...) {
      if (!failed) failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

// Call it before any callback is closed, so that the last saved files still go to the loggers that
// keep files.
void Trainer::Impl::finish_saves() {
  for_each_saver([this](CheckpointSaver& saver) { saver.close(state, logger); });
}

void Trainer::Impl::apply(FitOptions& fit_options, const FitNumbers::Start& start) {
  const bool has_loader = static_cast<bool>(fit_options.train_dataloader);
  if (has_loader) {
    bind_train_dataloader(std::move(fit_options.train_dataloader),
                          fit_options.train_dataloader_label);
  }
  if (!state.train_dataloader) {
    throw UsageError("fit() has no data: set train_dataloader here or in TrainerOptions");
  }
  const auto subset = fit_options.train_subset_num_batches;
  if (subset) options.train_subset_num_batches = subset;
  if (has_loader || subset) {
    subset_train_dataloader(options.train_subset_num_batches.value_or(-1));
  }
  if (sets_time_back(fit_options, start)) {
    state.timestamp = Timestamp();
    resumed.is_there = false;
  }
  if (start.end) {
    state.max_duration = start.end;
  } else if (fit_options.duration) {
    const Time duration = fit_options.duration->time();
    state.max_duration = duration + start.begin.value_or(state.timestamp.get(duration.unit()));
  }
  if (fit_options.schedulers) {
    if (!start.end) scale_max_duration(fit_options.scale_schedule_ratio);
    set_schedulers(*fit_options.schedulers, fit_options.scale_schedule_ratio,
                   fit_options.step_schedulers_every_batch);
  }
  if (fit_options.eval_dataloader) {
    check_loaders_of_rank(*fit_options.eval_dataloader);
    evaluators.set_evaluators(
        *fit_options.eval_dataloader,
        {fit_options.eval_interval, fit_options.eval_subset_num_batches.value_or(-1)});
  }
  if (fit_options.device_train_microbatch_size) {
    set_microbatch_size(fit_options.device_train_microbatch_size);
  }
}

void Trainer::Impl::check_can_fit() const {
  if (!state.max_duration) {
    throw UsageError("fit() does not know when to end: set max_duration, or duration in fit()");
  }
  check_iteration_length(state);
  require_iteration_length(state, *state.max_duration, "max_duration", "training would never end");
  for (const CheckpointSaver* saver : savers_among(state.callbacks)) {
    require_iteration_length(state, saver->options().save_interval, "save_interval");
  }
  for (const Evaluator& evaluator : state.evaluators) {
    require_iteration_length(state, evaluator.eval_interval.value(),
                             "eval_interval of '" + evaluator.label + "'");
  }
  if (state.max_duration->unit() == TimeUnit::kEpoch && !state.dataloader_len) {
    throw UsageError(
        "max_duration is in epochs, and the train data loader has no known length: give "
        "max_duration in ba, sp or tok, or set train_subset_num_batches");
  }
}

FitNumbers::Start Trainer::Impl::begin_fit(FitOptions& fit_options) {
  const auto duration =
      fit_options.duration ? std::optional(fit_options.duration->time()) : std::nullopt;
  const FitNumbers::Start start = fit_numbers.next(duration);
  apply(fit_options, start);
  if (!start.is_over) {
    check_can_fit();
    if (duration && fit_numbers.is_unknown(start)) guess_begin(state, logger, *duration);
    if (!start.end && (duration || sets_time_back(fit_options, start))) {
      const TimeUnit unit = duration ? duration->unit() : state.max_duration->unit();
      fit_numbers.note({.duration = duration,
                        .begin = start.begin.value_or(state.timestamp.get(unit)),
                        .end = *state.max_duration});
    }
  }
  state.fit_calls = fit_numbers.calls();
  return start;
}

// A fit() call that the checkpoint knows does not set the time back again.
bool Trainer::Impl::sets_time_back(const FitOptions& fit_options, const FitNumbers::Start& start) {
  return fit_options.reset_time && !start.is_known && !start.is_over;
}

void Trainer::Impl::finish_fit() {
  fit_numbers.finish(*state.max_duration);
  state.fit_calls = fit_numbers.calls();
}

FitResult Trainer::Impl::fit(FitOptions fit_options) {
  if (!state.optimizer) {
    if (cairn::parameters(state.model->module()).empty())
      throw UsageError("fit(): the model has no parameters to train");
    throw UsageError(
        "fit(): this Trainer was made without optimizers and without train_dataloader, so it can "
        "only "
        "evaluate: set TrainerOptions::optimizers");
  }
  check(fit_options, state);
  if (context.group != nullptr) require_same_on_ranks(facts_of(fit_options));
  const FitNumbers::Start start = begin_fit(fit_options);
  if (start.is_over) {
    logger.log_message("call " + std::to_string(start.number) + " of fit() in the run " +
                       state.run_name + " was finished before the run was started again");
    return {FitResult::Reason::kAlreadyFinished, 0};
  }
  const Time max = *state.max_duration;
  if (!sets_time_back(fit_options, start) && is_training_over(state)) {
    if (!resumed.from.empty()) {
      finish_fit();
      return already_finished();
    }
    if (max.value() <= 0) {
      throw UsageError("fit() would train nothing: max_duration is " + max.to_string() +
                       ". Give a max_duration above 0, such as 10ep, or a duration in fit().");
    }
    throw UsageError("fit() would train nothing: max_duration is " + max.to_string() +
                     " and training is at " + state.timestamp.get(max.unit()).to_string() +
                     " already. Give a duration, a larger max_duration, or reset_time.");
  }

  if (outside.signals) outside.signals->expect_to_serve(true);
  const FitResult result = [&] {
    try {
      ended_well = false;
      const FitResult of_loop = run_loop(fit_options);
      // Launchers end a job when the first process exits, and a program may exit at once.
      if (context.group != nullptr) dist::barrier("ending fit()");
      ended_well = true;
      return of_loop;
    } catch (...) {
      if (outside.signals) outside.signals->expect_to_serve(false);
      throw;
    }
  }();
  if (outside.signals) outside.signals->expect_to_serve(false);
  if (result.reason != FitResult::Reason::kInterrupted) finish_fit();
  return result;
}

FitResult Trainer::Impl::run_loop(const FitOptions& fit_options) {
  const FitResult interrupted = {FitResult::Reason::kInterrupted, options.interrupted_exit_code};
  const RequestService attended(outside.requests,
                                outside.signals ? std::optional(request_options()) : std::nullopt);
  // A request to one rank is a request to all, whichever rank handles signals.
  outside.unserved = of_all_ranks(merge_requests(
      outside.unserved, outside.requests ? outside.requests->poll_before_training() : Requests()));
  trained = true;
  if (outside.unserved.stop) {
    stop_before_first_batch(std::exchange(outside.unserved, {}));
    return interrupted;
  }
  FitLoop loop(
      context, evaluators,
      {.spin_dataloaders = fit_options.spin_dataloaders.value_or(options.spin_dataloaders),
       .step_schedulers_every_batch = step_schedulers_every_batch,
       .check_loader = resumed.is_there,
       .resumed_from = resumed.from,
       .rng = State::CheckpointForm::of(state).pending_rng,
       .on_time_advanced =
           [&] {
             resumed.is_there = false;
             State::CheckpointForm::of(state).pending_rng.reset();
           },
       .requests = &outside.unserved,
       .poll_requests =
           [&] {
             if (!outside.requests) return;
             outside.unserved = merge_requests(outside.unserved, outside.requests->poll());
           },
       .serve_requests = [&] { return serve(std::exchange(outside.unserved, {})); },
       // If another rank called stop_training() in the batch of a stop, the next fit() serves it.
       .serve_at_end =
           [&] {
             if (!outside.unserved.stop) serve(std::exchange(outside.unserved, {}));
           },
       .excuses_failed_save = [&](const Error& error) { return excuses(error); }});
  const std::int64_t first_batch = state.timestamp.batch;
  context.times = PhaseTimes(first_batch);
  for (const auto& callback : state.callbacks) {
    auto* const profiler = dynamic_cast<Profiler*>(callback.get());
    if (profiler == nullptr) continue;
    context.times.set_observer([profiler](Phase phase, auto begin, auto end) {
      profiler->record(name(phase), begin, end);
    });
  }
  const bool is_finished = loop.run();
  if (state.timestamp.batch != first_batch) log_times();
  if (!is_finished) return interrupted;
  for_each_saver([&](auto& saver) { CheckpointSaver::TrainerCalls::after_uploads(saver, logger); });
  // A request during the last batch stops nothing here: the next fit() serves it. The loaded
  // checkpoint may be from before the end of its epoch. In that case the loop only ended that
  // epoch.
  const bool has_trained = state.timestamp.batch != first_batch;
  if (!resumed.from.empty() && !has_trained) return already_finished();
  return {FitResult::Reason::kFinished, 0};
}

// Saves the last batch that an earlier fit() trained, unless it is saved already.
void Trainer::Impl::stop_before_first_batch(const Requests& asked) {
  if (state.previous_timestamp) {
    serve(asked);
    return;
  }
  logger.log_message(fmt::format("{}{}batch {}, before anything was trained", asked.reason,
                                 kStoppingMessage, state.timestamp.batch));
}

FitResult Trainer::Impl::already_finished() {
  for_each_saver([&](CheckpointSaver& saver) { saver.remove_superfluous(state, logger); });
  const Time& max = *state.max_duration;
  logger.log_message("the run " + state.run_name + " is already finished (" +
                     state.timestamp.get(max.unit()).to_string() + " of " + max.to_string() + ")");
  return {FitResult::Reason::kAlreadyFinished, 0};
}

StopRequestOptions Trainer::Impl::request_options() const {
  StopRequestOptions request_options;
  if (dist::rank() != 0) return request_options;  // Only rank 0 looks for the files.
  if (const CheckpointSaver* saver = reference_saver()) {
    request_options.folder =
        strict_format(NameFormat(saver->options().folder), dist_variables(state.run_name));
    const auto& store = saver->options().store;
    if (local_files_of(*store) == nullptr) request_options.store = store;
  }
  return request_options;
}

void Trainer::Impl::run_unattended(const std::function<void()>& work) {
  if (outside.signals && !trained) {
    outside.signals->expect_to_serve(false);
    leave_if_interrupted();
  }
  const bool has_ended_well = std::exchange(ended_well, false);
  work();
  ended_well = has_ended_well;
}

bool Trainer::Impl::serve(const Requests& asked) {
  if (!asked.save && !asked.stop) return false;
  const bool saves = reference_saver() != nullptr;
  if (asked.stop) {
    save_at_last();
  } else {
    for_each_saver([&](CheckpointSaver& saver) { saver.save_unless_saved(state, logger); });
  }
  logger.log_message(fmt::format(
      "{}{}batch {}{}", asked.reason, asked.stop ? kStoppingMessage : ": going on at ",
      state.timestamp.batch, saves ? ", saved" : "; nothing is saved without a save_folder"));
  if (!asked.stop) log_times();
  return asked.stop;
}

// So that who looks at the run sees that it failed, and why. The program prints the error itself,
// so this is only for logs that stay.
void Trainer::Impl::log_failure() noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    const std::string message = printable(std::string(kFailedMessage) + error.what());
    for (const auto& destination : logger.destinations()) {
      if (dynamic_cast<FileLogger*>(destination.get()) == nullptr) continue;
      try {
        destination->log_message(message);
      } catch (const std::exception&) {  // a full disk, for example; the first error counts
      }
    }
  } catch (...) {
  }
}

// Where the time of this fit() has gone, on rank 0.
void Trainer::Impl::log_times() {
  if (dist::rank() == 0) logger.log_message(context.times.describe(state.timestamp.batch));
}

bool Trainer::Impl::excuses(const Error& failed_save) {
  if (!outside.signals || !(is_stop_asked() || outside.unserved.stop)) return false;
  logger.log_message(std::string(kSaveFailedMessage) + failed_save.what());
  return true;
}

// If an earlier save failed, this save must still happen, since it is the last.
void Trainer::Impl::save_at_last() {
  for_each_saver([&](CheckpointSaver& saver) {
    try {
      saver.wait();
    } catch (const std::exception& e) {
      logger.log_message(std::string(kEarlierSaveFailedMessage) + e.what());
    }
    std::exception_ptr failed;
    try {
      saver.save_unless_saved(state, logger);
    } catch (...) {
      failed = std::current_exception();
    }
    saver.wait();
    if (failed) std::rethrow_exception(failed);
  });
}

}  // namespace cairn
