// cairn curves RUN...: plots the metrics that runs have logged.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "cli/runs/find_runs.h"
#include "cli/runs/plot.h"
#include "cli/runs/run_log.h"
#include "cli/runs/run_status.h"
#include "cli/shell/command.h"
#include "cli/view/joined.h"
#include "cli/view/path_match.h"
#include "cli/view/screen.h"
#include "core/text/csv.h"
#include "core/text/json.h"
#include "core/text/printable.h"

namespace cairn::cli {
namespace {

struct CurvesArgs {
  std::vector<std::string> runs;
  std::vector<std::string> metrics;
  bool csv = false;
};

std::set<std::string> names_in(const std::vector<RunLog>& logs) {
  std::set<std::string> names;
  for (const RunLog& log : logs) {
    for (const auto& [name, points] : log.metrics)
      names.insert(name);
  }
  return names;
}

std::vector<std::string> chosen(const std::set<std::string>& names, const CurvesArgs& options) {
  std::vector<std::string> metrics;
  for (const std::string& name : names) {
    if (options.metrics.empty() ? is_shown_first(name) : matches_path(options.metrics, name))
      metrics.push_back(name);
  }
  if (options.metrics.empty() && metrics.empty()) metrics.assign(names.begin(), names.end());
  if (metrics.empty() && !names.empty()) {
    throw NotFoundError("no metric is called " + joined(options.metrics, " or ") +
                        ". There are: " + joined(names));
  }
  return metrics;
}

const std::vector<MetricPoint>& points_of(const RunLog& log, const std::string& metric) {
  static const std::vector<MetricPoint> none;
  const auto found = log.metrics.find(metric);
  return found == log.metrics.end() ? none : found->second;
}

std::string summary(const std::vector<MetricPoint>& points) {
  PlotRange range;
  range.include(points);
  const MetricPoint& last = points.back();
  std::string text = fmt::format("{:.4g} at batch {}", last.value, last.batch);
  if (!range.is_empty())
    text += fmt::format(", lowest {:.4g}, highest {:.4g}", range.lowest, range.highest);
  return text;
}

// The plots of a metric have the same axes, so that runs can be compared.
void plot_metric(const std::string& metric, const std::vector<RunLog>& logs, Console& console) {
  PlotRange range;
  for (const RunLog& log : logs)
    range.include(points_of(log, metric));
  const int width = console.screen == nullptr ? 0 : console.screen->size().columns;
  console.out << printable_line(metric) << "\n";
  for (const RunLog& log : logs) {
    const std::vector<MetricPoint>& points = points_of(log, metric);
    if (points.empty()) continue;
    console.out << console.dim(printable_line(log.path)) << "  " << summary(points) << "\n";
    if (range.is_empty()) continue;
    for (const std::string& line : plot(points, range, {.columns = width > 0 ? width : 80}))
      console.out << line << "\n";
  }
  console.out << "\n";
}

void print_plots(const std::vector<RunLog>& logs, const std::vector<std::string>& metrics,
                 Console& console) {
  for (const std::string& metric : metrics)
    plot_metric(metric, logs, console);
  const std::set<std::string> names = names_in(logs);
  std::vector<std::string> others;
  std::ranges::set_difference(names, metrics, std::back_inserter(others));
  if (others.empty() || console.quiet) return;
  console.err << "cairn: --metric shows these, too: " << printable_line(joined(others)) << "\n";
}

void print_csv(const std::vector<RunLog>& logs, const std::vector<std::string>& metrics,
               Console& console) {
  console.out << csv_line({"run", "metric", "batch", "value"});
  for (const std::string& metric : metrics) {
    for (const RunLog& log : logs) {
      for (const auto& [batch, value] : points_of(log, metric))
        console.out << csv_line({log.path, metric, std::to_string(batch),
                                 std::isnan(value) ? "" : fmt::to_string(value)});
    }
  }
}

Json json_of(const RunLog& log, const std::vector<std::string>& metrics) {
  Json curves = Json::object();
  for (const std::string& metric : metrics) {
    Json batches = Json::array();
    Json values = Json::array();
    for (const auto& [batch, value] : points_of(log, metric)) {
      batches.push_back(batch);
      values.push_back(value);
    }
    curves[metric] = {{"batches", batches}, {"values", values}};
  }
  return {{"path", log.path}, {"metrics", curves}, {"lines_passed_over", log.passed_over}};
}

// Another kind of file that happens to begin like a log.
void check_is_log(const RunLog& log) {
  if (log.entries > 0 || log.passed_over == 0) return;
  if (log.kind == LogKind::kEventFiles) {
    throw CorruptError("nothing in the event files of " + log.path + " can be read; the first is " +
                       log.problem);
  }
  throw UsageError(log.path +
                   " is no log of FileLogger: no line is one that "
                   "FileLogger writes");
}

int run_curves(const CurvesArgs& options, Console& console) {
  std::vector<RunLog> logs;
  for (const std::string& run : options.runs) {
    check_places({.run = run});
    logs.push_back(read_run_log(run));
    check_is_log(logs.back());
    tell_passed_over(logs.back(), console);
  }
  const std::vector<std::string> metrics = chosen(names_in(logs), options);
  if (metrics.empty()) console.err << "cairn: no metric was logged yet\n";
  if (console.json) {
    Json all = Json::array();
    for (const RunLog& log : logs)
      all.push_back(json_of(log, metrics));
    console.print_json({{"runs", all}});
  } else if (options.csv) {
    print_csv(logs, metrics, console);
  } else {
    print_plots(logs, metrics, console);
  }
  return kDone;
}

}  // namespace

Run define_curves(CLI::App& app) {
  const auto options = std::make_shared<CurvesArgs>();
  app.add_option(
         "RUN", options->runs,
         "logs of FileLogger, event files for TensorBoard, or the folders of runs that hold "
         "them")
      ->required();
  app.add_option(
         "--metric", options->metrics,
         "only metrics of this name or below it, with * and ?; by default losses and metrics")
      ->type_name("NAME");
  app.add_flag("--csv", options->csv, "print run, metric, batch and value of each point as CSV");
  app.footer(
      "The plots of a metric have the same axes for all runs. If a run resumed and logged some "
      "batches again, the later values count. The run may still be training.");
  return [options](Console& console) { return run_curves(*options, console); };
}

}  // namespace cairn::cli
