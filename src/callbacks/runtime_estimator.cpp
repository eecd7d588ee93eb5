#include "cairn/callbacks/runtime_estimator.h"

#include <algorithm>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/wall_time.h"

namespace cairn {
namespace {

// The batches of an epoch: the mean of the epochs so far, or the train loader's length in the first
// epoch. nullopt: unknown.
std::optional<double> batches_per_epoch(const State& state) {
  const Timestamp& now = state.timestamp;
  if (now.epoch >= 1) {
    return static_cast<double>(now.batch - now.batch_in_epoch) / static_cast<double>(now.epoch);
  }
  if (!state.dataloader_len) return std::nullopt;
  return static_cast<double>(*state.dataloader_len);
}

// The part of max_duration that lies before `when`. With max_duration in epochs, batches count as
// parts of epochs if the length of an epoch is known.
double elapsed_fraction(const State& state, const Timestamp& when) {
  const Time& max = *state.max_duration;
  const auto batches = batches_per_epoch(state);
  if (max.unit() == TimeUnit::kEpoch && batches) {
    return static_cast<double>(when.batch) / (max.number() * *batches);
  }
  return when.get(max.unit()).number() / max.number();
}

}  // namespace

RuntimeEstimator::RuntimeEstimator(const RuntimeEstimatorOptions& options)
    : options_(options), unit_seconds_(seconds_of(options.time_unit, "RuntimeEstimator")) {
  if (options.skip_batches < 0) {
    throw UsageError("RuntimeEstimator: skip_batches must not be negative");
  }
}

void RuntimeEstimator::init(State& /*state*/, Logger& logger) {
  logger.log_hyperparameters(
      Dict{{"time/remaining_estimate_unit", std::string(options_.time_unit)}});
}

void RuntimeEstimator::batch_start(State& state, Logger& /*logger*/) {
  if (start_ && start_->batch > state.timestamp.batch) {  // The time was reset.
    start_.reset();
    evaluations_.clear();
  }
  if (!start_ && batches_seen_ >= options_.skip_batches) start_ = state.timestamp;
}

void RuntimeEstimator::batch_end(State& state, Logger& logger) {
  if (!start_) {
    ++batches_seen_;
    return;
  }
  if (!state.max_duration) return;
  const double start = elapsed_fraction(state, *start_);
  const double now = elapsed_fraction(state, state.timestamp);
  if (now <= start) return;
  const double seconds =
      state.timestamp.total_wct.total_seconds() - start_->total_wct.total_seconds();
  if (seconds <= 0) return;  // In a job of several ranks this batch's time counts from the next on.
  const double remaining = seconds / (now - start) * (1 - now) + remaining_evaluation(state, start);
  logger.log_metrics(Dict{{"time/remaining_estimate", remaining / unit_seconds_}});
}

double RuntimeEstimator::remaining_evaluation(const State& state, double start_fraction) const {
  double remaining = 0;
  for (const auto& [label, evaluations] : evaluations_) {
    const double elapsed = elapsed_fraction(state, evaluations.last) - start_fraction;
    if (elapsed <= 0) continue;
    const auto count = static_cast<double>(evaluations.count);
    const double mean = evaluations.count > 1
                            ? (evaluations.seconds - evaluations.first_seconds) / (count - 1)
                            : evaluations.seconds;
    remaining += mean * (count / elapsed * (1 - start_fraction) - count);
  }
  return remaining;
}

void RuntimeEstimator::eval_end(State& state, Logger& /*logger*/) {
  if (!start_) return;
  const std::string& label = state.dataloader_label;
  auto found = std::ranges::find(evaluations_, label, &decltype(evaluations_)::value_type::first);
  if (found == evaluations_.end()) found = evaluations_.emplace(found, label, Evaluations());
  Evaluations& evaluations = found->second;
  const double seconds = state.eval_timestamp.total_wct.total_seconds();
  if (evaluations.count == 0) evaluations.first_seconds = seconds;
  ++evaluations.count;
  evaluations.seconds += seconds;
  evaluations.last = state.timestamp;
}

Value RuntimeEstimator::state_dict() const {
  Dict evaluations;
  for (const auto& [label, each] : evaluations_) {
    evaluations.set(label, Dict{{"count", each.count},
                                {"seconds", each.seconds},
                                {"first_seconds", each.first_seconds},
                                {"last", each.last.state_dict()}});
  }
  return Dict{{"start", start_ ? start_->state_dict() : Value(None{})},
              {"evaluations", std::move(evaluations)}};
}

RuntimeEstimator::Evaluations RuntimeEstimator::evaluations_of(const Value& state) {
  const auto number = [&state](const char* key) -> const Value& {
    const Value* found = state.is_dict() ? state.find(key) : nullptr;
    if (found == nullptr || (!found->is_int() && found->kind() != Kind::kFloat)) {
      throw MismatchError(std::string("RuntimeEstimator's state of an evaluator has no number \"") +
                          key + "\"");
    }
    return *found;
  };
  const Value& count = number("count");
  const Value* last = state.find("last");
  if (!count.is_int() || count.as_int() < 1 || last == nullptr) {
    throw MismatchError(
        "RuntimeEstimator's state of an evaluator has no count of evaluations with the time of the "
        "last");
  }
  return {.count = count.as_int(),
          .seconds = number("seconds").as_float(),
          .first_seconds = number("first_seconds").as_float(),
          .last = Timestamp::from_value(*last)};
}

void RuntimeEstimator::load_state_dict(const Value& state) {
  std::optional<Timestamp> start;
  decltype(evaluations_) evaluations;
  const Value* saved = state.is_dict() ? state.find("start") : nullptr;
  if (saved != nullptr && !saved->is_none()) {  // Composer's state is empty.
    start = Timestamp::from_value(*saved);
    const Value* labels = state.find("evaluations");
    if (labels == nullptr || !labels->is_dict()) {
      throw MismatchError("RuntimeEstimator's state has no dict \"evaluations\"");
    }
    for (const auto& [label, each] : labels->as_dict())
      evaluations.emplace_back(label.as_str(), evaluations_of(each));
  }
  start_ = start;
  evaluations_ = std::move(evaluations);
}

}  // namespace cairn
