#include "cairn/loggers/progress_bar_logger.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "cairn/train/state.h"

#include "terminal/progress_line.h"
#include "terminal/terminal.h"

namespace cairn {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

bool counts_epochs(const State& state) {
  return !state.max_duration || state.max_duration->unit() == TimeUnit::kEpoch;
}

std::string unit_title(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::kBatch:
      return "Batch";
    case TimeUnit::kSample:
      return "Sample";
    case TimeUnit::kToken:
      return "Token";
    default:
      return "Iteration";
  }
}

std::int64_t position(const State& state) {
  return counts_epochs(state) ? state.timestamp.batch_in_epoch
                              : state.timestamp.get(state.max_duration->unit()).value();
}

void set_metric(std::vector<std::pair<std::string, Value>>& metrics, const std::string& name,
                Value value) {
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&name](const auto& entry) { return entry.first == name; });
  if (found == metrics.end()) {
    metrics.emplace_back(name, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

}  // namespace

ProgressBarLogger::ProgressBarLogger(ProgressBarLoggerOptions options)
    : options_(std::move(options)) {
  if (options_.stream == nullptr) options_.stream = &std::cerr;
  if (!options_.is_terminal) options_.is_terminal = is_terminal(*options_.stream);
  if (!options_.now) options_.now = steady_seconds;
}

// The choice of metrics is Composer's: losses in training, results in evaluation.
void ProgressBarLogger::log_metrics(const Dict& metrics, std::int64_t /*step*/) {
  for (const auto& [key, value] : metrics) {
    const std::string& name = key.as_str();
    if (!contains(name, "loss") && !contains(name, "metric")) continue;
    if (train_ && contains(name, "loss/train")) {
      set_metric(train_->metrics, name, value);
    } else if (eval_ && contains(name, "eval")) {
      set_metric(eval_->metrics, name, value);
    }
  }
}

void ProgressBarLogger::log_hyperparameters(const Dict& hyperparameters) {
  for (const auto& [key, value] : hyperparameters) {
    hyperparameters_.set(key, value);
  }
}

void ProgressBarLogger::log_traces(const Dict& traces) {
  if (!options_.log_traces) return;
  for (const auto& [key, value] : traces) {
    log_message("[trace] " + key.as_str() + ": " + format_log_value(value));
  }
}

void ProgressBarLogger::log_message(const std::string& message) {
  clear_line();
  *options_.stream << message << std::endl;
}

void ProgressBarLogger::fit_start(State& /*state*/, Logger& /*logger*/) {
  if (hyperparameters_.empty()) return;
  const std::string rule(30, '*');
  std::string text = rule + "\nConfig:\n";
  for (const auto& [key, value] : hyperparameters_) {
    text += key.as_str() + ": " + format_log_value(value) + "\n";
  }
  log_message(text + rule);
  hyperparameters_ = Dict();
}

void ProgressBarLogger::begin_train_bar(const State& state) {
  const std::string& label = state.dataloader_label;
  Bar bar;
  if (counts_epochs(state)) {
    bar.description = fmt::format("{:<15}Epoch {:3}: ", label, state.timestamp.epoch);
    bar.unit = "ba";
    bar.total = state.dataloader_len;
  } else {
    const TimeUnit unit = state.max_duration->unit();
    bar.description = fmt::format("{:<15}{:<11}: ", label, unit_title(unit));
    bar.unit = cairn::name(unit);
    bar.total = state.max_duration->value();
  }
  bar.begin = options_.now();
  train_ = std::move(bar);
}

void ProgressBarLogger::epoch_start(State& state, Logger& /*logger*/) {
  if (train_) return;
  begin_train_bar(state);
  train_->initial = train_->n = position(state);
}

void ProgressBarLogger::batch_end(State& state, Logger& /*logger*/) {
  if (!train_) {  // resumed inside an epoch that another process began
    begin_train_bar(state);
    train_->initial = position(state) - 1;
  }
  update(*train_, position(state));
}

void ProgressBarLogger::epoch_end(State& state, Logger& /*logger*/) {
  if (counts_epochs(state)) finish(train_);
}

void ProgressBarLogger::fit_end(State& /*state*/, Logger& /*logger*/) { finish(train_); }

void ProgressBarLogger::eval_start(State& state, Logger& /*logger*/) {
  Bar bar;
  bar.description = fmt::format(
      "{:<15}{} {:3}: ", state.dataloader_label,
      state.timestamp.batch_in_epoch == 0 ? "Epoch" : "Batch",
      state.timestamp.batch_in_epoch == 0 ? state.timestamp.epoch : state.timestamp.batch);
  bar.unit = "ba";
  bar.total = state.dataloader_len;
  bar.begin = options_.now();
  eval_ = std::move(bar);
}

void ProgressBarLogger::eval_batch_end(State& state, Logger& /*logger*/) {
  if (eval_) update(*eval_, state.eval_timestamp.batch);
}

void ProgressBarLogger::eval_end(State& /*state*/, Logger& /*logger*/) { finish(eval_); }

void ProgressBarLogger::close(State& /*state*/, Logger& /*logger*/) {
  finish(eval_);
  finish(train_);
}

Value ProgressBarLogger::state_dict() const {
  return Dict{{"train_pbar", None{}}, {"eval_pbar", None{}}};
}

void ProgressBarLogger::update(Bar& bar, std::int64_t n) {
  bar.n = n;
  const Seconds interval = *options_.is_terminal ? options_.redraw_seconds : options_.line_seconds;
  if (options_.now() - std::max(last_drawn_, bar.begin) >= interval.count())
    draw(bar, /*is_last=*/false);
}

void ProgressBarLogger::finish(std::optional<Bar>& bar) {
  if (!bar) return;
  draw(*bar, /*is_last=*/true);
  bar.reset();
}

void ProgressBarLogger::draw(const Bar& bar, bool is_last) {
  std::vector<std::pair<std::string, std::string>> metrics;
  for (const auto& [name, value] : bar.metrics)
    metrics.emplace_back(name, format_log_value(value));
  const Progress progress = {.description = bar.description,
                             .unit = bar.unit,
                             .n = bar.n,
                             .total = bar.total,
                             .initial = bar.initial,
                             .seconds = options_.now() - bar.begin,
                             .metrics = std::move(metrics)};
  const bool is_terminal = *options_.is_terminal;
  draw_progress(*options_.stream, progress, {.is_terminal = is_terminal, .stays = is_last});
  is_line_dirty_ = is_terminal && !is_last;
  last_drawn_ = options_.now();
}

void ProgressBarLogger::clear_line() {
  if (!is_line_dirty_) return;
  erase_progress(*options_.stream);
  is_line_dirty_ = false;
}

}  // namespace cairn
