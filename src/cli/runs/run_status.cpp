#include "cli/runs/run_status.h"

#include <algorithm>
#include <array>
#include <limits>

#include "cairn/error.h"

#include "cli/runs/listed_folder.h"
#include "cli/view/clock_text.h"
#include "core/text/json.h"
#include "core/text/time_text.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kLastMessages = 20;

// The number of batches at the end of a run. Only batches, and epochs of a known length, tell it.
std::optional<std::int64_t> batches_in(const RunSpan& span) {
  if (span.max_duration.empty()) return std::nullopt;
  try {
    const Time duration = parse_time(span.max_duration);
    const bool is_epochs = duration.unit() == TimeUnit::kEpoch;
    if (duration.unit() != TimeUnit::kBatch && !(is_epochs && span.dataloader_len))
      return std::nullopt;
    const std::int64_t factor = is_epochs ? *span.dataloader_len : 1;
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() / std::max(factor, {1});
    if (factor < 1 || duration.value() < 1 || duration.value() > most) return std::nullopt;
    return duration.value() * factor;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

Json time_json(const std::optional<LogTime>& time) {
  return time ? Json(utc_time_text(*time)) : Json();
}

template <class T>
Json json_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

const char* name(RunState state) {
  constexpr std::array kNames = {"training", "finished", "interrupted",
                                 "failed",   "killed",   "unknown"};
  return kNames.at(static_cast<std::size_t>(state));
}

RunState state_of(const RunSpan& span, bool is_killed) {
  if (!span.has_begin) return RunState::kUnknown;
  switch (span.end) {
    case SpanEnd::kFinished:
      return RunState::kFinished;
    case SpanEnd::kInterrupted:
      return RunState::kInterrupted;
    case SpanEnd::kFailed:
      return RunState::kFailed;
    case SpanEnd::kNone:
      break;
  }
  return is_killed ? RunState::kKilled : RunState::kTraining;
}

bool has_ended(RunState state) {
  return state != RunState::kTraining && state != RunState::kUnknown;
}

void add_log(RunStatus& status, const RunLog& log, bool is_killed) {
  status.log = log.path;
  status.saves = log.saves;
  status.times = log.times;
  const auto first = log.messages.end() -
                     static_cast<std::ptrdiff_t>(std::min(log.messages.size(), kLastMessages));
  status.messages.assign(first, log.messages.end());
  for (const auto& [metric, points] : log.metrics) {
    if (points.empty()) continue;
    status.values.push_back({metric, points.back()});
    status.batch = std::max(status.batch, points.back().batch);
  }
  if (log.spans.empty()) return;
  const RunSpan& span = log.spans.back();
  status.state = state_of(span, is_killed);
  status.batch = span.last_batch;
  status.total_batches = batches_in(span);
  status.max_duration = span.max_duration;
  status.begin = span.begin;
  status.first_batch = span.first_batch;
  status.last_sign = span.last;
}

std::optional<double> batches_per_second(const RunStatus& status) {
  if (!status.begin || !status.last_sign) return std::nullopt;
  const double seconds = std::chrono::duration<double>(*status.last_sign - *status.begin).count();
  const double batches =
      static_cast<double>(status.batch) - static_cast<double>(status.first_batch);
  if (seconds <= 0 || batches <= 0) return std::nullopt;
  return batches / seconds;
}

std::optional<double> seconds_left(const RunStatus& status) {
  const auto rate = batches_per_second(status);
  if (status.state != RunState::kTraining || !rate || !status.total_batches) return std::nullopt;
  const double left =
      static_cast<double>(*status.total_batches) - static_cast<double>(status.batch);
  return std::max(left, 0.0) / *rate;
}

const LatestValue* main_value(const RunStatus& status) {
  for (const char* begin : {"loss/train/", "loss/", ""}) {
    for (const LatestValue& value : status.values) {
      if (value.metric.starts_with(begin) && !is_shown_last(value.metric)) return &value;
    }
  }
  return status.values.empty() ? nullptr : &status.values.front();
}

bool is_shown_first(const std::string& metric) {
  return metric.starts_with("loss/") || metric.starts_with("metrics/");
}

bool is_shown_last(const std::string& metric) { return metric.starts_with("time/"); }

Json status_json(const RunStatus& status) {
  Json values = Json::array();
  for (const auto& [metric, point] : status.values)
    values.push_back({{"name", metric}, {"batch", point.batch}, {"value", point.value}});
  Json messages = Json::array();
  for (const RunMessage& message : status.messages)
    messages.push_back(
        {{"batch", message.batch}, {"time", time_json(message.time)}, {"text", message.text}});
  return {{"name", status.name},
          {"log", status.log.empty() ? Json() : Json(status.log)},
          {"state", name(status.state)},
          {"batch", status.batch},
          {"total_batches", json_or_null(status.total_batches)},
          {"max_duration", status.max_duration.empty() ? Json() : Json(status.max_duration)},
          {"begin", time_json(status.begin)},
          {"last_sign", time_json(status.last_sign)},
          {"batches_per_second", json_or_null(batches_per_second(status))},
          {"seconds_left", json_or_null(seconds_left(status))},
          {"metrics", std::move(values)},
          {"newest", status.newest ? listed_json(*status.newest) : Json()},
          {"checkpoints", status.checkpoints},
          {"folders_left_out", status.folders_left_out},
          {"saved", status.saves.saved},
          {"failed_saves", status.saves.failed},
          {"uploaded", status.saves.uploaded},
          {"messages", std::move(messages)},
          {"times", status.times.empty() ? Json() : Json(status.times)},
          {"problem", status.problem.empty() ? Json() : Json(status.problem)}};
}

}  // namespace cairn::cli
