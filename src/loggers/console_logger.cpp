#include "cairn/loggers/console_logger.h"

#include <fmt/format.h>

#include <iostream>

#include "cairn/error.h"
#include "cairn/train/state.h"

namespace cairn {
namespace {

void check_unit(const Interval& interval) {
  const Time* time = interval.time();
  if (time == nullptr || time->unit() == TimeUnit::kEpoch || time->unit() == TimeUnit::kBatch) {
    return;
  }
  throw UsageError("console_log_interval must be in epochs or batches, not " + time->to_string());
}

std::string count(std::string_view what, std::int64_t n, const std::optional<Time>& max,
                  TimeUnit unit) {
  if (!max || max->unit() != unit) return fmt::format("[{}={}]", what, n);
  return fmt::format("[{}={}/{}]", what, n, max->value());
}

}  // namespace

ConsoleLogger::ConsoleLogger(ConsoleLoggerOptions options) : options_(std::move(options)) {
  check_unit(options_.log_interval);
  is_due_ = create_interval_scheduler(options_.log_interval, {.checkpoint_events = false});
  if (options_.stream == nullptr) options_.stream = &std::cerr;
}

void ConsoleLogger::log_metrics(const Dict& metrics, std::int64_t /*step*/) {
  for (const auto& [key, value] : metrics) {
    metrics_.set(key, value);
  }
}

bool ConsoleLogger::needs_losses(const State& state) const {
  const Time* interval = options_.log_interval.time();
  if (interval == nullptr) return true;
  if (interval->unit() != TimeUnit::kBatch || interval->value() <= 0) return false;
  return (state.timestamp.batch + 1) % interval->value() == 0;
}

void ConsoleLogger::log_hyperparameters(const Dict& hyperparameters) {
  for (const auto& [key, value] : hyperparameters) {
    hyperparameters_.set(key, value);
  }
}

void ConsoleLogger::log_traces(const Dict& traces) {
  if (options_.log_traces) print_entries(traces);
}

void ConsoleLogger::log_message(const std::string& message) {
  *options_.stream << message << std::endl;
}

void ConsoleLogger::fit_start(State& /*state*/, Logger& /*logger*/) {
  if (hyperparameters_.empty()) return;
  *options_.stream << "config:\n";
  print_entries(hyperparameters_);
  hyperparameters_ = Dict();
}

void ConsoleLogger::batch_end(State& state, Logger& /*logger*/) {
  if (is_due_(state, Event::kBatchEnd)) print(state);
}

void ConsoleLogger::epoch_end(State& state, Logger& /*logger*/) {
  if (is_due_(state, Event::kEpochEnd)) print(state);
}

void ConsoleLogger::fit_end(State& state, Logger& /*logger*/) {
  if (is_due_(state, Event::kFitEnd)) print(state);
}

void ConsoleLogger::eval_end(State& state, Logger& /*logger*/) { print(state); }

void ConsoleLogger::print(const State& state) {
  if (metrics_.empty()) return;
  const Timestamp& now = state.timestamp;
  *options_.stream << count("epoch", now.epoch, state.max_duration, TimeUnit::kEpoch)
                   << count("batch", now.batch, state.max_duration, TimeUnit::kBatch) << ":\n";
  print_entries(metrics_);
  metrics_ = Dict();
}

void ConsoleLogger::print_entries(const Dict& entries) {
  for (const auto& [key, value] : entries) {
    *options_.stream << "    " << key.as_str() << ": " << format_log_value(value) << "\n";
  }
  options_.stream->flush();
}

}  // namespace cairn
