#include "cli/runs/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "cairn/error.h"

#include "cli/view/joined.h"
#include "core/text/csv.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

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

// One format of FileLogger. Returns false for a line that is not of it.
class JsonLines {
 public:
  static bool read(RunLog& log, std::string_view line) {
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return false;
    const auto batch = object.find("batch");
    if (batch == object.end()) return object.contains("hyperparameter") || object.contains("trace");
    if (!batch->is_number_integer()) return false;
    const auto at = batch->get<std::int64_t>();
    const auto metric = object.find("metric");
    if (metric != object.end()) {
      if (!metric->is_string() || !object.contains("value")) return false;
      return add(log, metric->get<std::string>(), at, object["value"]);
    }
    if (object.contains("message") || object.contains("table")) return true;
    for (const auto& [name, value] : object.items()) {
      if (name != "batch" && name != "time") add(log, name, at, value);
    }
    return true;
  }

 private:
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
    const auto batch = std::ranges::find(columns_, "batch");
    batch_ = static_cast<std::size_t>(batch - columns_.begin());
  }
  bool has_batch() const { return batch_ < columns_.size(); }

  bool read(RunLog& log, std::string_view line) const {
    const std::vector<std::string> cells = csv_cells(line);
    if (cells.size() != columns_.size()) return false;
    const auto at = number_in<std::int64_t>(cells[batch_]);
    if (!at) return false;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i == batch_ || columns_[i] == "time") continue;
      if (const auto value = number_in<double>(cells[i]))
        add_point(log, columns_[i], {*at, *value});
    }
    return true;
  }

 private:
  std::vector<std::string> columns_;
  std::size_t batch_ = 0;
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

std::string log_in(ObjectStore& store, const std::string& folder, const std::string& shown) {
  std::vector<std::string> names;
  for (const ListedName& listed : list_all(store, shown)) {
    if (is_log_name(listed.name)) names.push_back(listed.name);
  }
  std::ranges::sort(names);
  if (names.empty()) {
    throw NotFoundError("there is no log in the folder " + shown +
                        ": FileLogger writes {run_name}/logs-rank{rank}.jsonl, or the file that "
                        "its option `filename` names");
  }
  const auto of_first = std::ranges::find_if(
      names, [](const std::string& name) { return name.find("rank0.") != std::string::npos; });
  if (names.size() > 1 && of_first == names.end()) {
    throw UsageError("the folder " + shown + " has several logs: " + printable_line(joined(names)) +
                     ". Name one of them");
  }
  return join_path(folder, of_first == names.end() ? names.front() : *of_first);
}

}  // namespace

RunLog read_run_log(const std::string& place) {
  const auto store = store_of(place, nullptr);
  const std::string given = shown_place(place);
  const std::string path = is_folder(*store, given) ? log_in(*store, given, given) : given;
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

}  // namespace cairn::cli
