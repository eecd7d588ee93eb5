#include "cli/runs/run_log_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "cairn/error.h"

#include "core/text/csv.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "core/text/run_messages.h"

namespace cairn::cli {
namespace {

// FileLogger writes a few levels. Code that turns JSON into text calls itself for each level.
constexpr int kDeepest = 100;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// nullopt: no integer, or one that has no room in 64 bits with a sign.
std::optional<std::int64_t> integer_in(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMost) return std::nullopt;
  return value.get<std::int64_t>();
}

// Reads "2026-01-31T09:30:00.125Z", as FileLogger writes it.
std::optional<LogTime> time_in(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  if (text.size() != kForm.size()) return std::nullopt;
  std::array<int, 7> numbers{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (is_digit != (kForm[i] == '0') || (!is_digit && text[i] != kForm[i])) return std::nullopt;
    if (is_digit) {
      numbers[count] = numbers[count] * 10 + (text[i] - '0');
    } else {
      ++count;
    }
  }
  const auto [year, month, day, hour, minute, second, millisecond] = numbers;
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  // A time_point of nanoseconds ends in 2262.
  if (!date.ok() || year < 1970 || year > 2261) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second) + std::chrono::milliseconds(millisecond);
}

// Something was logged in a batch, at a time that the line may have.
void add_moment(RunLog& log, std::int64_t batch, std::optional<LogTime> time) {
  if (log.spans.empty() || log.spans.back().end != SpanEnd::kNone) return;
  RunSpan& span = log.spans.back();
  if (time) span.last = std::max(span.last, *time);
  span.last_batch = std::max(span.last_batch, batch);
}

// Metrics of a batch. The first ones with a time begin the span of a log without events.
void add_row(RunLog& log, std::int64_t batch, std::optional<LogTime> time) {
  if (log.spans.empty() && time)
    log.spans.push_back({.begin = *time, .last = *time, .first_batch = batch, .last_batch = batch});
  add_moment(log, batch, time);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value, -1);
}

// The beginning and the end of a fit().
void add_event(RunLog& log, const Json& object, std::int64_t batch, LogTime time) {
  const std::string event = text_of(object["event"]);
  if (event == "fit_start") {
    log.times.clear();  // those of an earlier start
    RunSpan span = {
        .begin = time, .last = time, .first_batch = batch, .last_batch = batch, .has_begin = true};
    const auto duration = object.find("max_duration");
    if (duration != object.end()) span.max_duration = text_of(*duration);
    const auto batches = object.find("dataloader_len");
    if (batches != object.end()) span.dataloader_len = integer_in(*batches);
    log.spans.push_back(std::move(span));
  } else if (event == "fit_end" || event == "close") {
    if (log.spans.empty()) return;
    RunSpan& span = log.spans.back();
    span.last = time;
    span.last_batch = std::max(span.last_batch, batch);
    if (event == "fit_end") {
      span.end = SpanEnd::kFinished;
    } else if (span.end == SpanEnd::kNone) {
      span.end = SpanEnd::kFailed;
    }
  }
}

// Whether it is "SIGTERM: stopping at batch 40, saved", logged in that batch.
bool says_stop(const RunMessage& message) {
  const std::size_t at = message.text.find(kStoppingMessage);
  if (at == std::string::npos) return false;
  const std::string_view where =
      std::string_view(message.text).substr(at + kStoppingMessage.size());
  const std::string batch = std::to_string(message.batch);
  return where.starts_with("batch " + batch + ",") || where.starts_with("batch " + batch + ";") ||
         where.starts_with("step " + batch + ",");
}

// A message says how the run ended. Outside a fit() there is no event.
void add_end(RunLog& log, const RunMessage& message, SpanEnd end) {
  if (log.spans.empty() || log.spans.back().end != SpanEnd::kNone) {
    if (!message.time) return;
    log.spans.push_back({.begin = *message.time,
                         .last = *message.time,
                         .first_batch = message.batch,
                         .last_batch = message.batch,
                         .has_begin = true});
  }
  log.spans.back().end = end;
}

void add_message(RunLog& log, RunMessage message) {
  const std::string& text = message.text;
  if (text.starts_with(kSavedMessage)) ++log.saves.saved;
  if (text.starts_with(kSaveFailedMessage) || text.starts_with(kEarlierSaveFailedMessage))
    ++log.saves.failed;
  if (text.starts_with(kUploadedMessage)) ++log.saves.uploaded;
  if (text.starts_with(kTimesMessage)) log.times = text;
  add_moment(log, message.batch, message.time);
  if (says_stop(message)) add_end(log, message, SpanEnd::kInterrupted);
  if (text.starts_with(kFailedMessage)) add_end(log, message, SpanEnd::kFailed);
  keep_message(log, std::move(message));
}

// Whether the line opens more than kDeepest arrays and objects in one another.
bool is_too_deep(std::string_view line) {
  int depth = 0;
  bool is_in_text = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (is_in_text && c == '\\') {
      ++i;
    } else if (c == '"') {
      is_in_text = !is_in_text;
    } else if (!is_in_text && (c == '{' || c == '[')) {
      if (++depth > kDeepest) return true;
    } else if (!is_in_text && (c == '}' || c == ']')) {
      --depth;
    }
  }
  return false;
}

// One format of FileLogger. Returns false for a line that is not of it.
class JsonLines {
 public:
  static bool read(RunLog& log, std::string_view line) {
    if (is_too_deep(line)) return false;
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return false;
    const auto batch = object.find("batch");
    if (batch == object.end()) return read_of_run(log, object);
    const auto number = integer_in(*batch);
    if (!number) return false;
    const std::int64_t at = *number;
    if (const auto metric = object.find("metric"); metric != object.end()) {
      if (!metric->is_string() || !object.contains("value")) return false;
      add_row(log, at, std::nullopt);
      return add(log, metric->get<std::string>(), at, object["value"]);
    }
    const auto time = time_of(object);
    if (const auto message = object.find("message"); message != object.end()) {
      add_message(log, {.batch = at, .text = text_of(*message), .time = time});
      return true;
    }
    if (object.contains("table")) return true;
    if (object.contains("event") && time) {
      add_event(log, object, at, *time);
      return true;
    }
    add_row(log, at, time);
    for (const auto& [name, value] : object.items()) {
      if (name != "batch" && name != "time") add(log, name, at, value);
    }
    return true;
  }

 private:
  static bool read_of_run(RunLog& log, const Json& object) {
    const auto name = object.find("hyperparameter");
    if (name == object.end()) return object.contains("trace");
    const auto value = object.find("value");
    if (value == object.end()) return false;
    log.hyperparameters[text_of(*name)] = json_text(*value, -1);
    return true;
  }
  static std::optional<LogTime> time_of(const Json& object) {
    const auto time = object.find("time");
    if (time == object.end() || !time->is_string()) return std::nullopt;
    return time_in(time->get_ref<const std::string&>());
  }
  // Metrics that are texts have no curve.
  static bool add(RunLog& log, const std::string& metric, std::int64_t batch, const Json& value) {
    if (value.is_number() || value.is_null()) {
      add_point(log.metrics[metric], {batch, value.is_null() ? kNone : value.get<double>()});
    }
    return true;
  }
};

// A CSV log has no events. A metric of an earlier batch than before proves that the run started
// again; a gap between the times of two rows proves nothing.
void add_csv_row(RunLog& log, std::int64_t batch, std::optional<LogTime> time, bool is_resumed) {
  if (is_resumed && time)
    log.spans.push_back({.begin = *time, .last = *time, .first_batch = batch, .last_batch = batch});
  add_row(log, batch, time);
}

bool read_csv(RunLog& log, const std::vector<std::string>& columns, std::string_view line) {
  const std::vector<std::string> cells = csv_cells(line);
  if (cells.size() != columns.size()) return false;
  const auto cell = [&](const char* column) {
    return static_cast<std::size_t>(std::ranges::find(columns, column) - columns.begin());
  };
  const std::size_t batch = cell("batch");
  const std::size_t time = cell("time");
  const auto at = number_in<std::int64_t>(cells[batch]);
  if (!at) return false;
  bool is_resumed = false;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i == batch || i == time) continue;
    const auto value = number_in<double>(cells[i]);
    if (value && add_point(log.metrics[columns[i]], {*at, *value})) is_resumed = true;
  }
  add_csv_row(log, *at, time < cells.size() ? time_in(cells[time]) : std::nullopt, is_resumed);
  return true;
}

}  // namespace

void keep_message(RunLog& log, RunMessage message) {
  log.messages.push_back(std::move(message));
  ++log.messages_added;
}

RunLog begun_anew(const RunLog& log) {
  return {.kind = log.kind, .path = log.path, .messages_added = log.messages_added};
}

bool add_point(std::vector<MetricPoint>& points, const MetricPoint& point) {
  const bool is_back = !points.empty() && points.back().batch > point.batch;
  remove_points(points, point.batch);
  points.push_back(point);
  return is_back;
}

void remove_points(std::vector<MetricPoint>& points, std::int64_t from) {
  while (!points.empty() && points.back().batch >= from)
    points.pop_back();
}

void RunLogLines::read(RunLog& log, std::string_view line) {
  const bool is_first = count_ == 0;
  const bool is_empty = !is_first && line.empty();
  const bool is_understood = is_empty || read_by_format(log, line, is_first);
  if (!is_understood) {
    pass_over(log);
    return;
  }
  ++count_;
  const bool is_header = is_first && !columns_.empty();
  if (!is_empty && !is_header) ++log.entries;
}

void RunLogLines::pass_over(RunLog& log) {
  ++count_;
  if (log.passed_over++ == 0) log.first_passed_over = count_;
}

bool RunLogLines::may_begin(std::string_view line) {
  return line.starts_with('{') || std::ranges::count(csv_cells(line), "batch") > 0;
}

void RunLogLines::check_first(const RunLog& log, std::string_view line) {
  if (may_begin(line)) return;
  throw UsageError(log.path +
                   " is no log of FileLogger: it begins with neither a JSON object nor a row with "
                   "a column \"batch\"");
}

bool RunLogLines::read_by_format(RunLog& log, std::string_view line, bool is_first) {
  if (is_first && !line.starts_with('{')) {
    check_first(log, line);
    columns_ = csv_cells(line);
    return true;
  }
  return columns_.empty() ? JsonLines::read(log, line) : read_csv(log, columns_, line);
}

}  // namespace cairn::cli
