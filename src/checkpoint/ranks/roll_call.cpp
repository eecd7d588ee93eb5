#include "checkpoint/ranks/roll_call.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

namespace cairn {
namespace {

using std::chrono::milliseconds;

std::string key_of_call(std::int64_t number, const std::string& name) {
  return std::to_string(number) + "/" + name;
}

}  // namespace

RollCall::RollCall(RankTable& table, std::string what)
    : table_(table),
      meeting_(*table.meeting),
      what_(std::move(what)),
      number_(++table.number),
      decision_(table, number_),
      signs_(table, number_),
      watched_(table, number_),
      last_look_(meeting_.now()) {
  if (!is_leader()) {
    watched_.add(0);
    return;
  }
  table.to_forget.push_back(number_);
  for (std::int64_t rank = 1; rank < me().world_size; ++rank) {
    watched_.add(rank);
  }
}

void RollCall::begin() {
  look_at_decision();
  keep_alive();
}

std::string RollCall::key(const std::string& name) const { return key_of_call(number_, name); }

void RollCall::set(const std::string& name, const std::string& value) {
  const std::string full = key(name);
  table_.ask([&] { meeting_.set(full, value); });
}

std::optional<std::string> RollCall::find(const std::string& name) {
  const std::string full = key(name);
  return table_.ask([&] { return meeting_.find(full); });
}

void RollCall::keep_alive() {
  const Meeting::Time now = meeting_.now();
  if (signs_.is_due(now)) table_.ask([this] { signs_.give(); });
  if (now - last_look_ >= table_.patience.look) look();
}

void RollCall::sign_of_life() {
  try {
    if (signs_.is_due(meeting_.now())) signs_.give();
  } catch (const std::exception&) {
    return;  // the next sign may arrive
  }
}

void RollCall::with_signs_of_life(const std::function<void()>& work) {
  if (is_giving_signs_ || !table_.has_threads) return work();
  is_giving_signs_ = true;
  const struct Ends {
    bool& is_giving_signs;
    ~Ends() { is_giving_signs = false; }
  } ends{is_giving_signs_};
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
    keep_alive();
    const auto left = std::chrono::duration_cast<milliseconds>(end - meeting_.now());
    if (left <= milliseconds(0)) return;
    meeting_.pause(std::min(left, table_.patience.look));
  }
}

// Step 3.
void RollCall::look() {
  const Meeting::Time before = std::exchange(last_look_, meeting_.now());
  look_at_decision();
  if (last_look_ - before >= table_.patience.silence / 2) watched_.begin_anew(last_look_);
  if (const auto silent = watched_.look()) accuse(*silent);
}

// Step 4.
void RollCall::look_at_decision() {
  if (decision_.is_good()) return;
  const auto decided = decision_.look();
  if (decided && !decided->is_good()) throw Settled{*decided};
}

void RollCall::accuse(const WatchedRanks::Silent& silent) {
  const Verdict accusation{.kind = Verdict::Kind::kFailed,
                           .rank = silent.rank,
                           .why = silent.why,
                           .status = 0,
                           .is_retryable = true};
  if (decision_.is_good() && !is_leader()) throw Unknown{silent.rank};
  if (decision_.is_good()) throw Settled{accusation};
  const Verdict stands = settle(accusation);
  if (stands.is_good()) throw Unknown{silent.rank};
  throw Settled{stands};
}

std::string RollCall::wait_for(const std::string& name) {
  milliseconds poll{1};
  for (;;) {
    if (auto value = find(name)) return *value;
    keep_alive();
    meeting_.pause(poll);
    poll = std::min(2 * poll, table_.patience.longest_poll);
  }
}

void RollCall::wait_for_decision() {
  milliseconds poll{1};
  for (;;) {
    look_at_decision();
    if (decision_.is_good()) return;
    keep_alive();
    meeting_.pause(poll);
    poll = std::min(2 * poll, table_.patience.longest_poll);
  }
}

// Step 6. Keys that a failed roll call leaves are removed by the next roll call.
void RollCall::forget_earlier_calls() {
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
    table_.ask([&] { meeting_.remove(key_of_call(number, name)); });
    keep_alive();
  }
}

// Step 7. Nothing depends on these calls to the meeting place, so a failed call is not repeated.
void RollCall::end() {
  try {
    signs_.leave();
    if (is_leader()) wait_for_farewells();
  } catch (const MeetingError&) {
    return;
  } catch (const CancelledError&) {  // the caller does not wait any more
    return;
  }
}

void RollCall::wait_for_farewells() {
  std::set<std::int64_t> left;
  for (std::int64_t rank = 1; rank < me().world_size; ++rank) {
    left.insert(rank);
  }
  const Meeting::Time end = meeting_.now() + table_.patience.farewell;
  for (milliseconds poll{1};; poll = std::min(2 * poll, table_.patience.longest_poll)) {
    std::erase_if(left, [this](std::int64_t rank) { return watched_.has_left(rank); });
    if (left.empty() || meeting_.now() >= end) return;
    meeting_.pause(poll);
  }
}

}  // namespace cairn
