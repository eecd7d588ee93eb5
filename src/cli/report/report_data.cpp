#include "cli/report/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/open/source.h"
#include "cli/runs/run_status.h"
#include "cli/runs/thin.h"
#include "core/text/json.h"
#include "core/text/json_text.h"

namespace cairn::cli {
namespace {

// A point takes 22 bytes of the page at most times, and 32 at worst.
constexpr std::size_t kMostPoints = 120'000;
constexpr std::size_t kMostMessages = 200;  // of a run, the last ones
constexpr std::size_t kMostText = 2000;     // bytes of a message or hyperparameter

// Six digits are more than a chart shows, and half of the bytes that a double takes.
Json short_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

Json short_numbers(const std::vector<double>& values) {
  Json numbers = Json::array();
  for (const double value : values)
    numbers.push_back(short_number(value));
  return numbers;
}

std::string short_text(std::string_view text) {
  if (text.size() <= kMostText) return std::string(text);
  return std::string(text.substr(0, kMostText)) + " ... (" +
         std::to_string(text.size() - kMostText) + " more bytes)";
}

Json point_json(const MetricPoint& point) {
  return {{"batch", point.batch}, {"value", short_number(point.value)}};
}

// The last, lowest and highest of all points, also of those that the page does not have.
Json curve_json(const std::string& name, const std::vector<MetricPoint>& points, std::size_t most) {
  const ThinCurve curve = thin(points, most);
  Json shown = {{"name", name},
                {"shown_first", is_shown_first(name)},
                {"points", points.size()},
                {"batches", curve.batches},
                {"values", short_numbers(curve.values)},
                {"last", point_json(points.back())}};
  if (!curve.lows.empty()) {
    shown["lows"] = short_numbers(curve.lows);
    shown["highs"] = short_numbers(curve.highs);
  }
  const MetricPoint* lowest = nullptr;
  const MetricPoint* highest = nullptr;
  std::size_t not_finite = 0;
  for (const MetricPoint& point : points) {
    if (!std::isfinite(point.value)) {
      if (not_finite++ == 0) shown["first_not_finite"] = point.batch;
      continue;
    }
    if (lowest == nullptr || point.value < lowest->value) lowest = &point;
    if (highest == nullptr || point.value > highest->value) highest = &point;
  }
  shown["not_finite"] = not_finite;
  if (lowest != nullptr) shown["lowest"] = point_json(*lowest);
  if (highest != nullptr) shown["highest"] = point_json(*highest);
  return shown;
}

Json curves_json(const RunLog& log, std::size_t most) {
  Json curves = Json::array();
  for (const auto& [name, points] : log.metrics)
    curves.push_back(curve_json(name, points, most));
  return curves;
}

// The options of the run, and what it has logged. A name that is both has what was logged.
Json hyperparameters_json(const GatheredRun& run) {
  std::map<std::string, std::string> all;
  if (run.log) all = run.log->hyperparameters;
  for (const auto& [name, text] : run.options)
    all.emplace(name, json_text(Json(text), -1));
  Json shown = Json::array();
  for (const auto& [name, value] : all)
    shown.push_back({{"name", name}, {"value", short_text(value)}});
  return shown;
}

Json messages_json(const RunLog& log) {
  Json shown = Json::array();
  const std::size_t first = log.messages.size() - std::min(log.messages.size(), kMostMessages);
  for (std::size_t i = first; i < log.messages.size(); ++i)
    shown.push_back({{"batch", log.messages[i].batch}, {"text", short_text(log.messages[i].text)}});
  return shown;
}

std::string end_of(const RunSpan& span) {
  if (span.end != SpanEnd::kNone) return name(state_of(span, /*is_killed=*/false));
  return span.has_begin ? "none" : "values";  // CSV and event files do not say how a fit() ended
}

// A killed process logs no end. The checkpoints that it saved show how long it lived at least.
void lengthen(std::vector<RunSpan>& spans, const std::vector<GatheredFolder>& folders) {
  for (const GatheredFolder& folder : folders) {
    for (const ListedCheckpoint& listed : folder.listed.listing.checkpoints) {
      const auto next = std::ranges::upper_bound(spans, listed.modified, {}, &RunSpan::begin);
      if (next == spans.begin()) continue;
      RunSpan& span = *std::prev(next);
      if (span.end == SpanEnd::kNone) span.last = std::max(span.last, listed.modified);
    }
  }
}

Json spans_json(const GatheredRun& run) {
  std::vector<RunSpan> spans = run.log ? run.log->spans : std::vector<RunSpan>();
  std::ranges::stable_sort(spans, {}, &RunSpan::begin);
  lengthen(spans, run.folders);
  Json shown = Json::array();
  for (const RunSpan& span : spans) {
    shown.push_back({{"begin", milliseconds(span.begin)},
                     {"last", milliseconds(span.last)},
                     {"first_batch", span.first_batch},
                     {"last_batch", span.last_batch},
                     {"end", end_of(span)}});
  }
  return shown;
}

// The row of `cairn ls --json`, with the time for charts and the reason of `cairn resume`.
Json checkpoint_json(const ListedCheckpoint& listed, const GatheredFolder& folder,
                     const std::map<std::string, std::string>& reasons) {
  Json row = listed_json(listed);
  row["time"] = milliseconds(listed.modified);
  row["is_folder"] = listed.is_folder;
  const auto& resume = folder.resume;
  row["chosen"] = resume && resume->answer.found && resume->answer.found->path == listed.path;
  const auto reason = reasons.find(listed.path);
  row["why_not"] = reason == reasons.end() ? Json() : Json(reason->second);
  return row;
}

Json folder_json(const GatheredFolder& folder) {
  std::map<std::string, std::string> reasons;
  Json shown = {{"folder", folder.listed.folder},
                {"resume", nullptr},
                {"resume_problem", folder.resume_problem},
                {"not_opened", folder.listed.listing.not_looked_into},
                {"checkpoints", Json::array()}};
  if (const auto& resume = folder.resume) {
    for (const auto& [path, why] : resume->others)
      reasons.emplace(path, without_path(why, path));
    const RunAnswer& answer = resume->answer;
    Json chosen = {{"path", nullptr}, {"needs", needed_option(answer)}, {"why", ""}};
    if (answer.found) {
      chosen["path"] = answer.found->path;
      chosen["why"] = moment_of(answer.found->timestamp);
      chosen["checked"] = answer.found->report.summary();
    } else {
      chosen["why"] = no_answer(*resume);
    }
    shown["resume"] = std::move(chosen);
  }
  for (const ListedCheckpoint& listed : folder.listed.listing.checkpoints)
    shown["checkpoints"].push_back(checkpoint_json(listed, folder, reasons));
  return shown;
}

Json run_json(const GatheredRun& run, std::size_t most_points) {
  Json shown = {{"name", run.name},          {"log", nullptr},
                {"curves", Json::array()},   {"hyperparameters", hyperparameters_json(run)},
                {"messages", Json::array()}, {"spans", spans_json(run)},
                {"folders", Json::array()},  {"has_folder", run.has_folder}};
  if (run.log) {
    shown["log"] = run.log->path;
    shown["curves"] = curves_json(*run.log, most_points);
    shown["messages"] = messages_json(*run.log);
  }
  for (const GatheredFolder& folder : run.folders)
    shown["folders"].push_back(folder_json(folder));
  return shown;
}

}  // namespace

std::int64_t milliseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

Json report_data(const std::vector<GatheredRun>& runs, bool is_verified,
                 std::chrono::system_clock::time_point now) {
  std::vector<std::size_t> counts;
  for (const GatheredRun& run : runs) {
    if (!run.log) continue;
    for (const auto& [name, points] : run.log->metrics)
      counts.push_back(points.size());
  }
  const std::size_t most_points = fair_share(std::move(counts), kMostPoints);
  Json all = Json::array();
  for (const GatheredRun& run : runs)
    all.push_back(run_json(run, most_points));
  return {{"cairn", CAIRN_VERSION},
          {"made", milliseconds(now)},
          {"verified", is_verified},
          {"runs", std::move(all)}};
}

}  // namespace cairn::cli
