#include "cli/serve/run_metrics.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/text/printable.h"

namespace cairn::cli {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// If a run logs more metrics, or metrics with longer names, these are left out.
constexpr std::size_t kMostMetrics = 1000;
constexpr std::size_t kLongestName = 300;
constexpr const char* kReadable = "cairn_run_readable";

double seconds(std::chrono::system_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// As the format wants it. No line feed or control character is left, and every text is UTF-8.
std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : printable_line(text)) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

class MetricsText {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void add(const Labels& labels, double value) {
    text_ += name_;
    char before = '{';
    for (const auto& [name, label] : labels) {
      text_ += fmt::format("{}{}=\"{}\"", before, name, label_value(label));
      before = ',';
    }
    text_ += (labels.empty() ? " " : "} ") + number_text(value) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string text_;
};

using Runs = std::vector<const RunStatus*>;

Runs first_of_each_name(const std::vector<RunStatus>& runs) {
  std::set<std::string> names;
  Runs first;
  for (const RunStatus& run : runs) {
    if (names.insert(printable_line(run.name)).second) first.push_back(&run);
  }
  return first;
}

// A metric that a run has once, or not at all.
struct Column {
  const char* name;
  const char* type;
  const char* help;
  std::function<std::optional<double>(const RunStatus&)> value;
};

std::optional<double> since_epoch(const std::optional<LogTime>& time) {
  return time ? std::optional(seconds(time->time_since_epoch())) : std::nullopt;
}

std::vector<Column> columns(std::chrono::system_clock::time_point now) {
  return {
      {kReadable, "gauge", "1 if the run could be read now; 0 if what is given is older.",
       [](const RunStatus& run) { return run.problem.empty() ? 1 : 0; }},
      {"cairn_run_batch", "gauge", "The last batch that the run has logged.",
       [](const RunStatus& run) { return static_cast<double>(run.batch); }},
      {"cairn_run_length_batches", "gauge", "The batches that the run has at its end, if known.",
       [](const RunStatus& run) {
         return run.total_batches ? std::optional<double>(*run.total_batches) : std::nullopt;
       }},
      {"cairn_run_last_sign_timestamp_seconds", "gauge",
       "When the run last logged something or wrote a file.",
       [](const RunStatus& run) { return since_epoch(run.last_sign); }},
      {"cairn_newest_good_checkpoint_age_seconds", "gauge",
       "The time since the newest good checkpoint was written. Absent if there is none.",
       [now](const RunStatus& run) {
         return run.newest ? std::optional(seconds(now - run.newest->modified)) : std::nullopt;
       }},
      {"cairn_newest_good_checkpoint_timestamp_seconds", "gauge", "When it was written.",
       [](const RunStatus& run) {
         return run.newest ? since_epoch(run.newest->modified) : std::nullopt;
       }},
      {"cairn_newest_good_checkpoint_batch", "gauge", "The batch of that checkpoint.",
       [](const RunStatus& run) -> std::optional<double> {
         if (!run.newest || !run.newest->info.timestamp) return std::nullopt;
         return run.newest->info.timestamp->batch;
       }},
      {"cairn_checkpoints", "gauge", "The checkpoints that are there.",
       [](const RunStatus& run) { return run.checkpoints; }},
      {"cairn_checkpoint_saves_total", "counter", "Checkpoints that the run says it has saved.",
       [](const RunStatus& run) { return run.saves.saved; }},
      {"cairn_checkpoint_save_failures_total", "counter", "Saves that the run says have failed.",
       [](const RunStatus& run) { return run.saves.failed; }},
      {"cairn_checkpoint_uploads_total", "counter", "Uploads that the run says are done.",
       [](const RunStatus& run) { return run.saves.uploaded; }},
  };
}

// Whether the run was read at least once. Other runs have only cairn_run_readable.
bool is_known(const RunStatus& run) {
  return run.problem.empty() || !run.log.empty() || run.checkpoints > 0;
}

void add_states(MetricsText& text, const Runs& runs) {
  text.begin("cairn_run_state", "gauge", "1 for the state that the run is in, 0 for the others.");
  for (const RunStatus* run : runs) {
    if (!is_known(*run)) continue;
    for (const RunState state : kRunStates)
      text.add({{"run", run->name}, {"state", name(state)}}, run->state == state ? 1 : 0);
  }
}

void add_values(MetricsText& text, const Runs& runs) {
  text.begin("cairn_run_metric", "gauge", "The latest value of each metric that the run logs.");
  for (const RunStatus* run : runs) {
    std::set<std::string> names;  // two names may have one label
    for (const auto& [metric, point] : run->values) {
      if (metric.size() > kLongestName || names.size() == kMostMetrics) continue;
      if (!names.insert(printable_line(metric)).second) continue;
      text.add({{"run", run->name}, {"name", metric}}, point.value);
    }
  }
}

}  // namespace

std::string run_metrics(const std::vector<RunStatus>& runs,
                        std::chrono::system_clock::time_point now) {
  const Runs first = first_of_each_name(runs);
  MetricsText text;
  for (const Column& column : columns(now)) {
    text.begin(column.name, column.type, column.help);
    const bool is_of_all = std::string_view(column.name) == kReadable;
    for (const RunStatus* run : first) {
      if (!is_of_all && !is_known(*run)) continue;
      if (const auto value = column.value(*run)) text.add({{"run", run->name}}, *value);
    }
  }
  add_states(text, first);
  add_values(text, first);
  return text.text();
}

std::string not_looked_at_metric(std::size_t folders) {
  MetricsText text;
  text.begin("cairn_runs_not_looked_at", "gauge",
             "Folders that may hold runs, and are more than the server looks at.");
  text.add({}, static_cast<double>(folders));
  return text.text();
}

}  // namespace cairn::cli
