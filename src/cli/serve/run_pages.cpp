#include "cli/serve/run_pages.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "cli/report/report_data.h"
#include "cli/serve/run_metrics.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "core/text/printable.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

constexpr auto kIntervalHere = std::chrono::seconds(5);
constexpr auto kIntervalFar = std::chrono::seconds(30);
constexpr std::size_t kFirstShown = 8;  // runs that a page shows before the user chooses
constexpr std::size_t kMostShown = 32;
constexpr std::size_t kMostMade = 16;  // texts that are kept
// A page in a hidden tab asks every few minutes.
constexpr auto kForgottenAfter = std::chrono::minutes(15);

std::chrono::seconds interval_of(const RunPages::Options& options, bool is_far) {
  return options.interval.value_or(is_far ? kIntervalFar : kIntervalHere);
}

std::set<std::string> chosen_runs(const WebRequest& asked) {
  std::set<std::string> names;
  const auto [begin, end] = asked.query.equal_range("run");
  for (auto one = begin; one != end && names.size() < kMostShown; ++one)
    names.insert(one->second);
  return names;
}

Json overview_row(const RunStatus& run) {
  Json row = {{"name", run.name},
              {"state", name(run.state)},
              {"batch", run.batch},
              {"total_batches", nullptr},
              {"value", nullptr},
              {"last_sign", nullptr},
              {"newest", nullptr},
              {"failed_saves", run.saves.failed},
              {"problem", run.problem.empty() ? Json() : Json(run.problem)}};
  if (run.total_batches) row["total_batches"] = *run.total_batches;
  if (const LatestValue* main = main_value(run)) {
    row["value"] = {{"metric", main->metric},
                    {"value", std::isfinite(main->point.value) ? Json(main->point.value) : Json()}};
  }
  if (run.last_sign) row["last_sign"] = milliseconds(*run.last_sign);
  if (run.newest) {
    const auto& at = run.newest->info.timestamp;
    row["newest"] = {{"name", run.newest->name},
                     {"batch", at ? Json(at->batch) : Json()},
                     {"time", milliseconds(run.newest->modified)}};
  }
  return row;
}

}  // namespace

RunPages::RunPages(const Options& options)
    : place_(options.place),
      clock_(options.clock),
      runs_(options.place),
      interval_(interval_of(options, runs_.is_far())),
      page_(live_page({{"address", "data.json"}, {"every", interval_.count()}})) {
  runs_.refresh({}, clock_());
  looked_at_ = clock_();
}

WebAnswer RunPages::answer(const WebRequest& asked) {
  if (asked.path == "/") {
    return {.type = "text/html; charset=utf-8",
            .body = web_body(page_.html),
            .headers = {{"Content-Security-Policy", page_.policy}}};
  }
  if (asked.path == "/data.json") return {.type = "application/json", .body = data(asked)};
  if (asked.path == "/metrics") return {.type = kMetricsType, .body = metrics()};
  return {.status = 404, .body = web_body("cairn serve: there are /, /data.json and /metrics\n")};
}

RunPages::Body RunPages::data(const WebRequest& asked) {
  const auto make = [this](const Names& shown) { return json_text(data_json(shown), -1); };
  if (!asked.query.contains("chosen"))
    return text("newest", {[this] { return newest_runs(); }, make});
  const Names chosen = chosen_runs(asked);
  std::string key = "chosen";
  for (const std::string& name : chosen)
    key += '\0' + name;
  return text(key, {[&] { return chosen; }, make});
}

RunPages::Body RunPages::metrics() {
  const auto make = [this](const Names& /*shown*/) {
    std::vector<RunStatus> runs = runs_.runs();
    for (RunStatus& run : runs) {
      if (run.problem.empty()) run.problem = problem_;
    }
    return run_metrics(runs, clock_());
  };
  return text("metrics", {[] { return Names(); }, make});
}

// --- Looks --------------------------------------------------------------------------------------

RunPages::Body RunPages::text(const std::string& key, const Text& wanted) {
  if (Body text = known(key, /*may_be_old=*/false)) return text;
  std::unique_lock looking(looking_, std::try_to_lock);
  if (!looking.owns_lock()) {
    if (Body text = known(key, /*may_be_old=*/true)) return text;
    looking.lock();
    if (Body text = known(key, /*may_be_old=*/false)) return text;
  }
  const CancelScope scope(&cancellation_);
  if (is_due()) look();
  Names shown = wanted.shown();
  runs_.complete(shown, clock_());
  Body text = web_body(wanted.make(shown));
  keep(key, {.shown = std::move(shown), .asked = clock_(), .look = looks_, .text = text});
  return text;
}

bool RunPages::is_due() {
  const std::scoped_lock lock(mutex_);
  return clock_() - looked_at_ >= interval_;
}

RunPages::Body RunPages::known(const std::string& key, bool may_be_old) {
  const std::scoped_lock lock(mutex_);
  const auto found = made_.find(key);
  if (found == made_.end()) return nullptr;
  found->second.asked = clock_();
  const bool is_old = found->second.look != looks_ || clock_() - looked_at_ >= interval_;
  return is_old && !may_be_old ? nullptr : found->second.text;
}

void RunPages::keep(const std::string& key, Made made) {
  const std::scoped_lock lock(mutex_);
  made_.insert_or_assign(key, std::move(made));
  if (made_.size() <= kMostMade) return;
  const auto by_time = [](const auto& a, const auto& b) { return a.second.asked < b.second.asked; };
  made_.erase(std::ranges::min_element(made_, by_time));
}

// The runs that pages show now.
RunPages::Names RunPages::shown_now() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(made_, [now = clock_()](const auto& made) {
    return now - made.second.asked > kForgottenAfter;
  });
  Names shown;
  for (const auto& [key, made] : made_)
    shown.insert(made.shown.begin(), made.shown.end());
  return shown;
}

void RunPages::look() {
  const WallTime now = clock_();
  try {
    runs_.refresh(shown_now(), now);
    problem_.clear();
  } catch (const Error& error) {
    problem_ = error.what();
  }
  const std::scoped_lock lock(mutex_);
  looked_at_ = now;
  ++looks_;
}

RunPages::Names RunPages::newest_runs() const {
  std::vector<RunStatus> runs = runs_.runs();
  std::ranges::stable_sort(runs, std::greater(), &RunStatus::last_sign);
  if (runs.size() > kFirstShown) runs.resize(kFirstShown);
  Names names;
  for (RunStatus& run : runs)
    names.insert(std::move(run.name));
  return names;
}

Json RunPages::data_json(const Names& shown) const {
  Json data = report_data(runs_.all(shown), /*is_verified=*/false, clock_());
  data["place"] = shown_place(place_);
  data["every"] = interval_.count();
  data["most_runs"] = kMostShown;
  data["not_looked_at"] = runs_.not_looked_at();
  data["problem"] = problem_.empty() ? Json() : Json(problem_);
  data["overview"] = Json::array();
  for (const RunStatus& run : runs_.runs())
    data["overview"].push_back(overview_row(run));
  return data;
}

}  // namespace cairn::cli
