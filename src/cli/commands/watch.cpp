// cairn watch RUN...: shows runs while they train, and ends with them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "cli/runs/find_runs.h"
#include "cli/runs/run_view.h"
#include "cli/runs/watched_run.h"
#include "cli/shell/command.h"
#include "cli/shell/duration.h"
#include "cli/shell/interrupted_code.h"
#include "cli/shell/run_args.h"
#include "cli/view/screen.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "io/threads/cancellation.h"

namespace cairn::cli {
namespace {

using std::chrono::seconds;
using LookTime = std::chrono::steady_clock::time_point;

constexpr seconds kNearInterval{2};
constexpr seconds kFarInterval{30};
constexpr seconds kLongestInterval{86400};
constexpr seconds kBetweenLines{60};          // that tell only progress
constexpr std::size_t kFirstMessages = 5;     // of each run, when the command starts
constexpr std::size_t kMessagesOfALook = 20;  // of each run, at one look

struct WatchArgs {
  RunArgs runs;
  std::string interval;
  std::string silence;
  bool once = false;
  bool wait = false;
  bool restarts = false;
};

// When a run counts as ended.
struct EndingRules {
  std::optional<seconds> silence = std::nullopt;
  bool restarts = false;  // a run that ended without finishing comes back
};

enum class Ending : std::uint8_t { kNotYet, kFinished, kInterrupted, kBad };

// A change of this is told at once.
struct News {
  Ending ending = Ending::kNotYet;
  RunState state = RunState::kUnknown;
  bool is_missing = false;
  std::string newest = {};  // the name of the newest good checkpoint
  SaveCounts saves = {};
  std::size_t folders_left_out = 0;
  std::string problem = {};
  bool operator==(const News&) const = default;
};

// A run, and when something was last heard of it.
class Listened {
 public:
  Listened(const RunPlaces& places, std::optional<seconds> interval, EndingRules rules)
      : run_(places),
        rules_(rules),
        interval_(interval.value_or(run_.is_far() ? kFarInterval : kNearInterval)) {}

  // If `may_be_missing`, the run may not be there yet.
  void look(bool may_be_missing) {
    is_missing_ = false;
    try {
      is_untold_ = run_.look() || is_untold_;
    } catch (const NotFoundError& error) {
      if (!may_be_missing)
        throw NotFoundError(std::string(error.what()) + ". `cairn watch --wait` waits for it");
      is_missing_ = true;
    }
    note_signs();
    is_silent_ = is_silent_now();
    next_look_ = pause_time() + interval_;
  }

  // Whether there is something to tell since the last time that this was so. Progress is told from
  // time to time.
  bool has_news() {
    const RunStatus& now = status();
    News news = {.ending = ending(),
                 .state = now.state,
                 .is_missing = is_missing_,
                 .newest = now.newest ? now.newest->name : "",
                 .saves = now.saves,
                 .folders_left_out = now.folders_left_out,
                 .problem = now.problem};
    const bool is_due = is_untold_ && (!told_at_ || pause_time() >= *told_at_ + kBetweenLines);
    if (news == news_ && !is_due) return false;
    news_ = std::move(news);
    is_untold_ = false;
    told_at_ = pause_time();
    return true;
  }

  // Messages since the last call.
  std::vector<RunMessage> take_messages() {
    if (run_.log() == nullptr) return {};
    const RunLog& log = *run_.log();
    const std::uint64_t most = told_ == 0 ? kFirstMessages : kMessagesOfALook;
    const std::uint64_t count =
        std::min({log.messages_added - told_, most, std::uint64_t{log.messages.size()}});
    told_ = log.messages_added;
    return {log.messages.end() - static_cast<std::ptrdiff_t>(count), log.messages.end()};
  }

  ViewedRun viewed() const {
    const RunLog* const log = run_.log();
    const LatestValue* const value = main_value(status());
    const bool has_curve = log != nullptr && value != nullptr;
    return {.status = status(),
            .curve = has_curve ? &log->metrics.at(value->metric) : nullptr,
            .age = age(),
            .is_silent = is_silent(),
            .is_missing = is_missing_,
            .is_awaited = ending() == Ending::kNotYet && has_ended(status().state)};
  }
  const RunStatus& status() const { return run_.status(); }
  // At the last look.
  bool is_silent() const { return is_silent_; }
  bool is_missing() const { return is_missing_; }
  Ending ending() const {
    const RunState state = status().state;
    if (state == RunState::kFinished) return Ending::kFinished;
    if (is_silent_) return Ending::kBad;
    if (!has_ended(state) || rules_.restarts) return Ending::kNotYet;
    return state == RunState::kInterrupted ? Ending::kInterrupted : Ending::kBad;
  }
  LookTime next_look() const { return next_look_; }

 private:
  bool is_silent_now() const {
    const RunState state = status().state;
    const bool may_go_on = rules_.restarts ? state != RunState::kFinished : !has_ended(state);
    // The next start of a run that has ended has its time from now on.
    const seconds quiet = has_ended(state) ? age() - age_then_ : age();
    return rules_.silence && may_go_on && quiet >= *rules_.silence;
  }
  // The times of files tell how old the signs are at the first look. Later, this machine's clock
  // counts, because another machine's may differ.
  void note_signs() {
    auto signs = std::tuple(status().last_sign, status().batch, status().checkpoints);
    if (signs == signs_) return;
    const bool is_first = !std::exchange(signs_, signs);
    heard_ = pause_time();
    age_then_ = seconds(0);
    const auto& sign = status().last_sign;
    if (!is_first || !sign) return;
    const auto age = std::chrono::system_clock::now() - *sign;
    age_then_ = std::max(std::chrono::duration_cast<seconds>(age), seconds(0));
  }
  seconds age() const {
    return age_then_ + std::chrono::duration_cast<seconds>(pause_time() - heard_);
  }

  WatchedRun run_;
  EndingRules rules_;
  seconds interval_;
  LookTime next_look_ = {};
  bool is_missing_ = false;
  bool is_silent_ = false;
  std::uint64_t told_ = 0;                   // RunLog::messages_added at the last take_messages()
  std::optional<News> news_ = std::nullopt;  // nullopt: nothing was told yet
  bool is_untold_ = false;                   // something has changed since told_at_
  std::optional<LookTime> told_at_ = std::nullopt;
  std::optional<std::tuple<std::optional<LogTime>, std::int64_t, std::size_t>> signs_;
  LookTime heard_ = pause_time();
  seconds age_then_{0};
};

class Watch {
 public:
  Watch(const WatchArgs& args, Console& console) : args_(args), console_(console) {
    std::optional<seconds> interval;
    if (!args.interval.empty()) interval = parse_duration(args.interval);
    if (interval && (*interval < seconds(1) || *interval > kLongestInterval))
      throw UsageError("--interval " + args.interval +
                       ": between two looks lies at least a second, and at most a day");
    EndingRules rules = {.restarts = args.restarts};
    if (!args.silence.empty()) rules.silence = parse_duration(args.silence);
    if (rules.silence && *rules.silence < seconds(1))
      throw UsageError("--silence " + args.silence + ": a run is silent after a second at least");
    for (const RunPlaces& places : places_of(args.runs)) {
      if (!may_be_missing()) check_places(places);
      runs_.push_back(std::make_unique<Listened>(places, interval, rules));
    }
  }

  int run() {
    look();
    while (!args_.once && has(Ending::kNotYet)) {
      const LookTime next = (*std::ranges::min_element(runs_, {}, [](const auto& run) {
                              return run->next_look();
                            }))->next_look();
      const auto time = next - pause_time();
      pause_here(std::max(std::chrono::ceil<std::chrono::milliseconds>(time),
                          std::chrono::milliseconds(0)));
      look();
    }
    if (has(Ending::kBad)) return kNegativeAnswer;
    return has(Ending::kInterrupted) ? kInterruptedCode : kDone;
  }

 private:
  struct ToldMessage {
    LogTime time;  // the latest that the run has told so far, so that its messages stay in order
    const Listened* run;
    RunMessage message;
  };

  bool may_be_missing() const { return args_.wait && !args_.once; }
  bool has(Ending ending) const {
    return std::ranges::any_of(runs_, [&](const auto& run) { return run->ending() == ending; });
  }

  // Looks at the runs whose turn it is, and shows what is new.
  void look() {
    std::vector<ToldMessage> told;
    std::vector<const Listened*> changed;
    for (const auto& run : runs_) {
      if (pause_time() < run->next_look()) continue;
      run->look(may_be_missing());
      if (run->has_news()) changed.push_back(run.get());
      LogTime time;
      for (RunMessage& message : run->take_messages()) {
        time = std::max(time, message.time.value_or(time));
        told.push_back({time, run.get(), std::move(message)});
      }
    }
    const std::vector<std::string> messages = lines_of(told);
    if (console_.json) {
      print_json(changed);
    } else if (console_.quiet) {
      print_bad(changed);
    } else if (console_.screen != nullptr && !args_.once) {
      console_.screen->draw(messages, view());
    } else {
      print(messages);
      print(args_.once ? view() : lines_of_changed(changed));
    }
    console_.out << std::flush;
  }

  std::vector<std::string> view() const {
    std::vector<ViewedRun> viewed;
    for (const auto& run : runs_)
      viewed.push_back(run->viewed());
    if (console_.screen == nullptr) return view_of(viewed, {80, 24}, console_);
    const TerminalSize size = console_.screen->size();
    return args_.once ? view_of(viewed, size, console_) : fitting_view_of(viewed, size, console_);
  }
  std::vector<std::string> lines_of(std::vector<ToldMessage>& told) const {
    std::ranges::stable_sort(told, {}, &ToldMessage::time);
    std::vector<std::string> lines;
    for (const auto& [time, run, message] : told)
      lines.push_back(message_line(message, runs_.size() > 1 ? run->status().name : ""));
    return lines;
  }
  std::vector<std::string> lines_of_changed(const std::vector<const Listened*>& changed) const {
    std::vector<std::string> lines;
    for (const Listened* run : changed)
      lines.push_back(line_of(run->viewed()));
    return lines;
  }
  void print(const std::vector<std::string>& lines) {
    for (const std::string& line : lines)
      console_.out << line << "\n";
  }
  void print_bad(const std::vector<const Listened*>& changed) {
    for (const Listened* run : changed) {
      const Ending ending = run->ending();
      if (ending == Ending::kBad || ending == Ending::kInterrupted)
        console_.out << line_of(run->viewed()) << "\n";
    }
  }
  void print_json(const std::vector<const Listened*>& changed) {
    for (const Listened* run : changed) {
      Json shown = status_json(run->status());
      shown["silent"] = run->is_silent();
      shown["missing"] = run->is_missing();
      console_.out << json_text(shown, -1) << "\n";
    }
  }

  const WatchArgs& args_;
  Console& console_;
  std::vector<std::unique_ptr<Listened>> runs_;
};

}  // namespace

Run define_watch(CLI::App& app) {
  const auto options = std::make_shared<WatchArgs>();
  add_runs(app, options->runs);
  app.add_option("--interval", options->interval,
                 "look again after this time, such as 10s; by default 2s, and 30s for a place that "
                 "needs a network")
      ->type_name("DURATION");
  app.add_option("--silence", options->silence,
                 "a run that writes nothing for this time, such as 15m, counts as ended badly")
      ->type_name("DURATION");
  app.add_flag("--once", options->once, "show the runs as they are now, and end");
  app.add_flag(
      "--restarts", options->restarts,
      "a run that was interrupted or killed, or has failed, comes back: only its finish or "
      "--silence ends it");
  app.add_flag("--wait", options->wait, "wait for runs that are not there yet");
  app.footer(
      "Reads only what the runs write: their logs and their folders. A terminal shows the "
      "progress, the newest values, a plot of the loss, the newest checkpoint and where the time "
      "goes, and "
      "above them the messages of the runs. Elsewhere each change is a line, with --json an "
      "object in one line; what changes in every batch is told once a minute. Ends when all runs "
      "have ended: exit code 0 if all have finished, 1 if one has failed, was killed, or is "
      "silent, "
      "else 75 if one was interrupted and may go on. A killed run is noticed by its lock "
      "if it saved into a folder of this machine, and elsewhere with --silence. If a place cannot "
      "be read for a while, the view says so, and goes on.");
  return [options](Console& console) { return Watch(*options, console).run(); };
}

}  // namespace cairn::cli
