#include "cli/serve/run_pages.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "cli/report/report_data.h"
#include "cli/serve/run_metrics.h"
#include "cli/view/content/describe_value.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "io/file.h"
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

// JSON has no number for those that are not finite.
Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json("not finite"); }

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
    row["value"] = {{"metric", main->metric}, {"value", number_json(main->point.value)}};
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
  looked_at_ = clock_();
  runs_.refresh({}, looked_at_.steady);
}

WebAnswer RunPages::answer(const WebRequest& asked) {
  if (asked.path == "/") {
    return {.type = "text/html; charset=utf-8",
            .body = web_body(page_.html),
            .headers = {{"Content-Security-Policy", page_.policy}}};
  }
  if (asked.path == "/data.json") return data(asked);
  if (asked.path == "/metrics") return metrics();
  return {.status = 404, .body = web_body("cairn serve: there are /, /data.json and /metrics\n")};
}

WebAnswer RunPages::data(const WebRequest& asked) {
  Text wanted = {.shown = [this] { return newest_runs(); },
                 .make = [this](const Names& shown) { return json_text(data_json(shown), -1); }};
  std::string key = "newest";
  if (asked.query.contains("chosen")) {
    wanted.shown = [names = chosen_runs(asked)] { return names; };
    key = "chosen";
    for (const std::string& name : wanted.shown())
      key += '\0' + name;
  }
  const Made made = this->made(key, wanted);
  WebAnswer answer = {
      .type = "application/json",
      .body = made.text,
      .headers = {{"ETag", made.tag}, {"Looked-At", std::to_string(milliseconds(made.looked_at))}}};
  if (asked.if_none_match != made.tag) return answer;
  answer.status = 304;
  answer.body = web_body("");
  return answer;
}

WebAnswer RunPages::metrics() {
  const auto make = [this](const Names& /*shown*/) {
    std::vector<RunStatus> runs = runs_.runs();
    for (RunStatus& run : runs) {
      if (run.problem.empty()) run.problem = problem_;
    }
    return run_metrics(runs, clock_().wall) + not_looked_at_metric(runs_.not_looked_at());
  };
  const Made made =
      this->made("metrics", {.shown = [] { return Names(); }, .make = make, .tells_time = true});
  return {.type = kMetricsType, .body = made.text};
}

// --- Looks --------------------------------------------------------------------------------------

RunPages::Made RunPages::made(const std::string& key, const Text& wanted) {
  if (auto made = known(key, /*may_be_old=*/false)) return *made;
  std::unique_lock looking(looking_, std::try_to_lock);
  if (!looking.owns_lock()) {
    if (auto made = known(key, /*may_be_old=*/true)) return *made;
    looking.lock();
    if (auto made = known(key, /*may_be_old=*/false)) return *made;
  }
  const CancelScope scope(&cancellation_);
  if (is_due()) look();
  return make(key, wanted);
}

// Called with `looking_`.
RunPages::Made RunPages::make(const std::string& key, const Text& wanted) {
  Names shown = wanted.shown();
  runs_.complete(shown, clock_().steady);
  const std::uint64_t revision = runs_.revision();
  Made made = known(key, /*may_be_old=*/true).value_or(Made{});
  if (!made.text || made.revision != revision || made.shown != shown || wanted.tells_time) {
    made.text = web_body(wanted.make(shown));
    made.tag = '"' + sha256(as_bytes(*made.text)).substr(0, 32) + '"';
  }
  made.shown = std::move(shown);
  made.revision = revision;
  made.look = looks_;
  made.looked_at = looked_at_.wall;
  made.asked = clock_().steady;
  keep(key, made);
  return made;
}

bool RunPages::is_due() {
  const std::scoped_lock lock(mutex_);
  return clock_().steady - looked_at_.steady >= interval_;
}

std::optional<RunPages::Made> RunPages::known(const std::string& key, bool may_be_old) {
  const std::scoped_lock lock(mutex_);
  const auto found = made_.find(key);
  if (found == made_.end()) return std::nullopt;
  const SteadyTime now = clock_().steady;
  found->second.asked = now;
  const bool is_old = found->second.look != looks_ || now - looked_at_.steady >= interval_;
  return is_old && !may_be_old ? std::nullopt : std::optional(found->second);
}

void RunPages::keep(const std::string& key, const Made& made) {
  const std::scoped_lock lock(mutex_);
  made_.insert_or_assign(key, made);
  if (made_.size() <= kMostMade) return;
  const auto by_time = [](const auto& a, const auto& b) { return a.second.asked < b.second.asked; };
  made_.erase(std::ranges::min_element(made_, by_time));
}

// The runs that pages show now.
RunPages::Names RunPages::shown_now() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(made_, [now = clock_().steady](const auto& made) {
    return now - made.second.asked > kForgottenAfter;
  });
  Names shown;
  for (const auto& [key, made] : made_)
    shown.insert(made.shown.begin(), made.shown.end());
  return shown;
}

void RunPages::look() {
  const Moment now = clock_();
  std::string problem;
  try {
    runs_.refresh(shown_now(), now.steady);
  } catch (const Error& error) {
    problem = error.what();
  }
  const std::scoped_lock lock(mutex_);
  if (problem != problem_) made_.clear();  // all texts have it
  problem_ = std::move(problem);
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
  Json data = report_data(runs_.all(shown), /*is_verified=*/false, {});
  data.erase("made");  // the header Looked-At has it: the same runs make the same text
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
