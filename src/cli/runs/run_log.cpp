#include "cli/runs/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "cairn/error.h"

#include "cli/view/joined.h"
#include "core/text/csv.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

using LogTime = std::chrono::system_clock::time_point;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Removes the points that this one takes the place of: a run that resumed logs them again.
void add_point(RunLog& log, const std::string& metric, const MetricPoint& point) {
  std::vector<MetricPoint>& points = log.metrics[metric];
  while (!points.empty() && points.back().batch >= point.batch)
    points.pop_back();
  points.push_back(point);
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

// Metrics of a batch were logged, at a time that the line may have.
void add_row(RunLog& log, std::int64_t batch, std::optional<LogTime> time) {
  if (log.spans.empty() && time) log.spans.push_back({*time, *time, batch, batch});
  if (log.spans.empty() || !log.spans.back().end.empty()) return;
  RunSpan& span = log.spans.back();
  if (time) span.last = std::max(span.last, *time);
  span.last_batch = std::max(span.last_batch, batch);
}

void add_event(RunLog& log, const std::string& event, std::int64_t batch, LogTime time) {
  if (event == "fit_start") {
    log.spans.push_back({time, time, batch, batch});
  } else if (event == "fit_end" || event == "close") {
    if (log.spans.empty()) return;
    RunSpan& span = log.spans.back();
    span.last = time;
    span.last_batch = std::max(span.last_batch, batch);
    span.end = event;
  }
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value, -1);
}

// One format of FileLogger. Returns false for a line that is not of it.
class JsonLines {
 public:
  static bool read(RunLog& log, std::string_view line) {
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return false;
    const auto batch = object.find("batch");
    if (batch == object.end()) return read_of_run(log, object);
    if (!batch->is_number_integer()) return false;
    const auto at = batch->get<std::int64_t>();
    if (const auto metric = object.find("metric"); metric != object.end()) {
      if (!metric->is_string() || !object.contains("value")) return false;
      add_row(log, at, std::nullopt);
      return add(log, metric->get<std::string>(), at, object["value"]);
    }
    if (const auto message = object.find("message"); message != object.end()) {
      log.messages.push_back({at, text_of(*message)});
      return true;
    }
    if (object.contains("table")) return true;
    const auto time = time_of(object);
    if (const auto event = object.find("event"); event != object.end() && time) {
      add_event(log, text_of(*event), at, *time);
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
      add_point(log, metric, {batch, value.is_null() ? kNone : value.get<double>()});
    }
    return true;
  }
};

class CsvLines {
 public:
  explicit CsvLines(std::string_view header) : columns_(csv_cells(header)) {
    batch_ = column("batch");
    time_ = column("time");
  }
  bool has_batch() const { return batch_ < columns_.size(); }

  bool read(RunLog& log, std::string_view line) const {
    const std::vector<std::string> cells = csv_cells(line);
    if (cells.size() != columns_.size()) return false;
    const auto at = number_in<std::int64_t>(cells[batch_]);
    if (!at) return false;
    add_row(log, *at, time_ < cells.size() ? time_in(cells[time_]) : std::nullopt);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i == batch_ || i == time_) continue;
      if (const auto value = number_in<double>(cells[i]))
        add_point(log, columns_[i], {*at, *value});
    }
    return true;
  }

 private:
  std::size_t column(const char* name) const {
    return static_cast<std::size_t>(std::ranges::find(columns_, name) - columns_.begin());
  }

  std::vector<std::string> columns_;
  std::size_t batch_ = 0;
  std::size_t time_ = 0;
};

// Calls `read` for each line that has an end, and counts those that it refuses.
void read_lines(RunLog& log, std::string_view text, std::size_t begin, const auto& read) {
  std::size_t number = begin == 0 ? 0 : 1;
  for (;;) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return;
    ++number;
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty() || read(line)) continue;
    if (log.passed_over++ == 0) log.first_passed_over = number;
  }
}

bool is_log_name(std::string_view name) {
  return name.ends_with(".jsonl") || name.ends_with(".csv");
}

std::vector<std::string> logs_in(ObjectStore& store, const std::string& folder) {
  std::vector<std::string> names;
  for (const ListedName& listed : list_all(store, folder)) {
    if (is_log_name(listed.name)) names.push_back(listed.name);
  }
  std::ranges::sort(names);
  return names;
}

std::string log_in(ObjectStore& store, const std::string& folder) {
  const std::vector<std::string> names = logs_in(store, folder);
  if (names.empty()) {
    throw NotFoundError("there is no log in the folder " + folder +
                        ": FileLogger writes {run_name}/logs-rank{rank}.jsonl, or the file that "
                        "its option `filename` names");
  }
  const auto of_first = std::ranges::find_if(
      names, [](const std::string& name) { return name.find("rank0.") != std::string::npos; });
  if (names.size() > 1 && of_first == names.end()) {
    throw UsageError("the folder " + folder +
                     " has several logs: " + printable_line(joined(names)) + ". Name one of them");
  }
  return join_path(folder, of_first == names.end() ? names.front() : *of_first);
}

}  // namespace

RunLog read_run_log(const std::string& place) {
  const auto store = store_of(place, nullptr);
  const std::string given = shown_place(place);
  const std::string path = is_folder(*store, given) ? log_in(*store, given) : given;
  const auto source = store->open(path);
  const SharedBytes bytes = source->view(0, source->size());
  const std::string_view text = as_text(bytes.view);

  RunLog log{.path = path};
  if (text.starts_with('{')) {
    read_lines(log, text, 0, [&](std::string_view line) { return JsonLines::read(log, line); });
  } else if (const std::size_t end = text.find('\n'); end != std::string_view::npos) {
    const CsvLines csv(text.substr(0, end));
    if (!csv.has_batch())
      throw UsageError(path +
                       " is no log of FileLogger: it begins with neither"
                       " a JSON object nor a row with a column \"batch\"");
    read_lines(log, text, end + 1, [&](std::string_view line) { return csv.read(log, line); });
  }
  return log;
}

bool has_run_log(const std::string& folder) {
  return !logs_in(*store_of(folder, nullptr), shown_place(folder)).empty();
}

void tell_passed_over(const RunLog& log, const Console& console) {
  if (log.passed_over == 0) return;
  console.err << "cairn: passed over " << log.passed_over << " lines of "
              << printable_line(log.path) << " that are not FileLogger's, the first is line "
              << log.first_passed_over << "\n";
}

}  // namespace cairn::cli
