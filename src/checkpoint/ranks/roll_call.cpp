#include "checkpoint/ranks/roll_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>

namespace cairn {
namespace {

using std::chrono::milliseconds;

const std::string kDecisions = "decisions";
constexpr std::size_t kDecisionsKept = 8;
const std::string kLeft = "left";

std::string key_of_call(std::int64_t number, const std::string& name) {
  return std::to_string(number) + "/" + name;
}

std::string beat_key(std::int64_t rank) { return "beat/" + std::to_string(rank); }

// "decisions": a line each, "<number> <verdict>", the last first.
using Decisions = std::map<std::int64_t, std::string, std::greater<>>;

Decisions parse_decisions(const std::string& text) {
  Decisions decisions;
  std::istringstream lines(text);
  std::int64_t number = 0;
  for (std::string verdict; lines >> number && std::getline(lines >> std::ws, verdict);) {
    decisions[number] = verdict;
  }
  return decisions;
}

std::string text_of(const Decisions& decisions) {
  std::string text;
  std::size_t count = 0;
  for (const auto& [number, verdict] : decisions) {
    if (++count <= kDecisionsKept) text += fmt::format("{} {}\n", number, verdict);
  }
  return text;
}

// What was decided on `number`, if anything was.
std::optional<Verdict> decision_on(std::int64_t number, const Decisions& decisions) {
  const auto found = decisions.find(number);
  if (found != decisions.end()) return parse_verdict(found->second);
  if (decisions.size() < kDecisionsKept || number > decisions.rbegin()->first) return std::nullopt;
  return Verdict{.kind = Verdict::Kind::kFailed,
                 .rank = 0,
                 .why = "went on with the others long ago, and without this rank"};
}

}  // namespace

void open_table(Meeting& meeting) { meeting.set(kDecisions, "\n"); }

RollCall::RollCall(RankTable& table, std::string what)
    : table_(table),
      meeting_(*table.meeting),
      what_(std::move(what)),
      number_(++table.number),
      last_beat_(meeting_.now() - table.patience.beat),
      last_look_(meeting_.now()) {
  if (!leads()) {
    watch(0);
    return;
  }
  table.to_forget.push_back(number_);
  for (std::int64_t rank = 1; rank < me().world_size; ++rank) {
    watch(rank);
  }
}

void RollCall::begin() {
  look_at_decision();
  move_on();
}

std::string RollCall::key(const std::string& name) const { return key_of_call(number_, name); }

// Step 5.
template <class Ask>
auto RollCall::ask(const Ask& call) -> decltype(call()) {
  constexpr milliseconds kPause{100};
  const Meeting::Time begin = meeting_.now();
  for (;;) {
    try {
      return call();
    } catch (MeetingError& e) {
      if (meeting_.now() - begin >= table_.patience.reach) {
        e.add_context(
            "what the ranks tell each other, where rank 0 or its launcher keeps it, "
            "cannot be reached");
        throw;
      }
    }
    meeting_.pause(kPause);
  }
}

void RollCall::watch(std::int64_t rank) { watched_[rank] = {"", meeting_.now()}; }

void RollCall::set(const std::string& name, const std::string& value) {
  const std::string full = key(name);
  ask([&] {
    meeting_.set(full, value);
    return true;
  });
}

std::optional<std::string> RollCall::find(const std::string& name) {
  const std::string full = key(name);
  return ask([&] { return meeting_.find(full); });
}

void RollCall::beat() {
  last_beat_ = meeting_.now();
  meeting_.set(beat_key(me().rank), fmt::format("{} {}", number_, ++beats_));
}

void RollCall::move_on() {
  const Meeting::Time now = meeting_.now();
  if (now - last_beat_ >= table_.patience.beat) {
    ask([this] {
      beat();
      return true;
    });
  }
  if (now - last_look_ >= table_.patience.look) look();
}

void RollCall::sign_of_life() {
  try {
    if (meeting_.now() - last_beat_ >= table_.patience.beat) beat();
  } catch (const std::exception&) {
    return;  // the next one may arrive
  }
}

void RollCall::beating(const std::function<void()>& work) {
  if (is_beating_ || !table_.has_threads) return work();
  is_beating_ = true;
  const struct Ends {
    bool& is_beating;
    ~Ends() { is_beating = false; }
  } ends{is_beating_};
  std::mutex mutex;
  std::condition_variable_any stopped;
  const std::jthread beats([&](const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      stopped.wait_for(lock, stop, milliseconds(500), [] { return false; });
      if (!stop.stop_requested()) sign_of_life();
    }
  });
  work();
}

void RollCall::pause(milliseconds time) {
  const Meeting::Time end = meeting_.now() + time;
  for (;;) {
    move_on();
    const auto left = std::chrono::duration_cast<milliseconds>(end - meeting_.now());
    if (left <= milliseconds(0)) return;
    meeting_.pause(std::min(left, table_.patience.look));
  }
}

void RollCall::look() {
  const Meeting::Time before = std::exchange(last_look_, meeting_.now());
  look_at_decision();
  if (last_look_ - before >= table_.patience.silence / 2) {
    for (auto& [rank, watched] : watched_) {
      watched.changed = last_look_;
    }
  }
  for (auto& [rank, watched] : watched_) {
    look_at_rank(rank, watched);
  }
}

std::string RollCall::decisions() {
  const auto found = ask([&] { return meeting_.find(kDecisions); });
  if (!found) throw MeetingError("nobody has opened the meeting place: rank 0 did not come");
  return *found;
}

// Step 4.
void RollCall::look_at_decision() {
  if (is_decided_) return;
  const auto decision = decision_on(number_, parse_decisions(decisions()));
  if (!decision) return;
  if (!decision->is_good()) throw Settled{*decision};
  is_decided_ = true;
}

// Step 3.
void RollCall::look_at_rank(std::int64_t rank, Watched& watched) {
  const auto beat = ask([&] { return meeting_.find(beat_key(rank)); });
  const bool is_of_this = beat && beat->starts_with(std::to_string(number_) + " ");
  if (is_of_this && *beat != watched.beat) {
    watched = {*beat, meeting_.now()};
    return;
  }
  const auto silence = meeting_.now() - watched.changed;
  if (silence < table_.patience.silence) return;
  const double seconds = std::chrono::duration<double>(table_.patience.silence).count();
  accuse(rank,
         watched.beat.empty()
             ? fmt::format("did not come within {} s: its process ended, hangs, or is cut off",
                           seconds)
             : fmt::format("was not heard of for {} s: its process ended, hangs, or is cut off",
                           seconds));
}

void RollCall::accuse(std::int64_t rank, const std::string& why) {
  const Verdict accusation{
      .kind = Verdict::Kind::kFailed, .rank = rank, .why = why, .status = 0, .is_retryable = true};
  if (is_decided_ && !leads()) throw Unknown{rank};
  if (is_decided_) throw Settled{accusation};
  const Verdict stands = settle(accusation);
  if (stands.is_good()) throw Unknown{rank};
  throw Settled{stands};
}

std::string RollCall::wait_for(const std::string& name) {
  milliseconds poll{1};
  for (;;) {
    if (auto value = find(name)) return *value;
    move_on();
    meeting_.pause(poll);
    poll = std::min(2 * poll, table_.patience.longest_poll);
  }
}

Verdict RollCall::settle(const Verdict& verdict) {
  for (std::string stands = decisions();;) {
    Decisions all = parse_decisions(stands);
    if (const auto decided = decision_on(number_, all)) {
      is_decided_ = decided->is_good();
      return *decided;
    }
    all[number_] = cairn::text_of(verdict);
    const std::string proposal = text_of(all);
    const auto now = ask([&] { return meeting_.exchange(kDecisions, stands, proposal); });
    if (!now) throw MeetingError("the meeting place has forgotten everything");
    stands = *now;
  }
}

void RollCall::wait_for_decision() {
  milliseconds poll{1};
  for (;;) {
    look_at_decision();
    if (is_decided_) return;
    move_on();
    meeting_.pause(poll);
    poll = std::min(2 * poll, table_.patience.longest_poll);
  }
}

// Step 6. What is left behind when a call fails is tried again by the next one.
void RollCall::all_have_come() {
  std::vector<std::int64_t>& numbers = table_.to_forget;
  while (numbers.front() != number_) {
    forget(numbers.front());
    numbers.erase(numbers.begin());
  }
}

void RollCall::forget(std::int64_t number) {
  std::vector<std::string> names = {"call", "kept", "done"};
  for (std::int64_t rank = 0; rank < me().world_size; ++rank) {
    for (const char* name : {"report/", "home/", "moved/", "plan/"}) {
      names.push_back(name + std::to_string(rank));
    }
  }
  for (const std::string& name : names) {
    ask([&] {
      meeting_.remove(key_of_call(number, name));
      return true;
    });
    move_on();
  }
}

// Step 7. Nothing depends on these calls: one that fails is not made again.
void RollCall::end() {
  try {
    meeting_.set(beat_key(me().rank), fmt::format("{} {}", number_, kLeft));
    if (!leads()) return;
    see_off();
  } catch (const MeetingError&) {
    return;
  } catch (const CancelledError&) {  // nobody waits any more
    return;
  }
}

// Or went on to the next.
bool RollCall::has_left(std::int64_t rank) {
  const auto beat = meeting_.find(beat_key(rank));
  if (!beat) return false;
  return beat->ends_with(kLeft) || !beat->starts_with(std::to_string(number_) + " ");
}

void RollCall::see_off() {
  std::set<std::int64_t> left;
  for (std::int64_t rank = 1; rank < me().world_size; ++rank) {
    left.insert(rank);
  }
  const Meeting::Time end = meeting_.now() + table_.patience.farewell;
  for (milliseconds poll{1};; poll = std::min(2 * poll, table_.patience.longest_poll)) {
    std::erase_if(left, [this](std::int64_t rank) { return has_left(rank); });
    if (left.empty() || meeting_.now() >= end) return;
    meeting_.pause(poll);
  }
}

}  // namespace cairn
