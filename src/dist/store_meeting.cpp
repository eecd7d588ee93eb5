#include "dist/store_meeting.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

#include "dist/group.h"

namespace cairn::dist {
namespace {

std::vector<std::uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string to_text(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

struct StoreMeeting::Line {
  c10::intrusive_ptr<c10d::Store> store;
  std::mutex mutex;
  std::condition_variable changed;
  std::function<Answer(c10d::Store&)> call;  // to be made, or being made
  std::uint64_t asked = 0;
  std::uint64_t answered = 0;
  Answer answer;
  std::string error;  // of the last call; empty: it was answered
  bool is_closing = false;
};

StoreMeeting::StoreMeeting(c10::intrusive_ptr<c10d::Store> store, std::chrono::milliseconds most)
    : most_(most), line_(std::make_shared<Line>()) {
  line_->store = std::move(store);
  std::thread([line = line_] { serve(line); }).detach();
}

StoreMeeting::~StoreMeeting() {
  const std::scoped_lock lock(line_->mutex);
  line_->is_closing = true;
  line_->changed.notify_all();
}

// Step 1, of the thread.
void StoreMeeting::serve(const std::shared_ptr<Line>& line) {
  std::unique_lock lock(line->mutex);
  for (;;) {
    line->changed.wait(lock, [&] { return line->is_closing || line->asked != line->answered; });
    if (line->asked == line->answered) return;
    const auto call = line->call;
    lock.unlock();
    Answer answer;
    std::string error;
    try {
      answer = call(*line->store);
    } catch (const std::exception& e) {
      error = e.what();  // the first line of c10d's: a backtrace follows
      error = "c10d: " + error.substr(0, error.find('\n'));
    }
    lock.lock();
    line->answer = std::move(answer);
    line->error = std::move(error);
    line->answered = line->asked;
    line->changed.notify_all();
  }
}

StoreMeeting::Answer StoreMeeting::ask(std::function<Answer(c10d::Store&)> call) {
  const auto deadline = std::chrono::steady_clock::now() + most_;
  std::unique_lock lock(line_->mutex);
  const auto is_idle = [this] { return line_->asked == line_->answered; };
  const auto no_answer = [this] {
    return MeetingError("no answer within " + std::to_string(most_.count()) + " ms");
  };
  if (!line_->changed.wait_until(lock, deadline, is_idle)) throw no_answer();  // step 2
  line_->call = std::move(call);
  ++line_->asked;
  line_->changed.notify_all();
  if (!line_->changed.wait_until(lock, deadline, is_idle)) throw no_answer();
  if (!line_->error.empty()) throw MeetingError(line_->error);
  return std::exchange(line_->answer, std::nullopt);
}

// TCPStore sends what is set and waits for no answer, and another connection may be served before
// this one. The question behind it comes to the server after it.
void StoreMeeting::set(const std::string& key, const std::string& value) {
  ask([=](c10d::Store& store) -> Answer {
    store.set(key, to_bytes(value));
    store.check({key});
    return std::nullopt;
  });
}

// get() would wait for it.
std::optional<std::string> StoreMeeting::find(const std::string& key) {
  return ask([=](c10d::Store& store) -> Answer {
    if (!store.check({key})) return std::nullopt;
    return to_text(store.get(key));
  });
}

// compareSet() gives the expected value for a key that nobody has set (1.13), and makes none.
std::optional<std::string> StoreMeeting::exchange(const std::string& key, const std::string& from,
                                                  const std::string& to) {
  return ask([=](c10d::Store& store) -> Answer {
    if (!store.check({key})) return std::nullopt;
    return to_text(store.compareSet(key, to_bytes(from), to_bytes(to)));
  });
}

void StoreMeeting::remove(const std::string& key) {
  ask([=](c10d::Store& store) -> Answer {
    store.deleteKey(key);
    return std::nullopt;
  });
}

namespace {

// Of CAIRN_SAVE_SILENCE: seconds.
std::optional<std::chrono::milliseconds> silence_asked_for() {
  const char* const text = std::getenv("CAIRN_SAVE_SILENCE");
  if (text == nullptr || *text == 0) return std::nullopt;
  const std::string_view all(text);
  int seconds = 0;
  const auto [end, error] = std::from_chars(all.begin(), all.end(), seconds);
  if (error != std::errc() || end != all.end() || seconds < 2 || seconds > 86'400) {
    throw UsageError("CAIRN_SAVE_SILENCE is '" + std::string(all) +
                     "', and must be a whole number of seconds from 2 to 86400");
  }
  return std::chrono::seconds(seconds);
}

}  // namespace

RankTable rank_table() {
  Group* const group = required_group();
  if (group == nullptr) throw UsageError("a process alone has no others to meet");
  RankTable table;
  table.meeting = group->meet_others();
  table.has_threads = true;
  if (const auto silence = silence_asked_for()) table.patience.silence = *silence;
  if (group->launch().rank == 0) open_table(*table.meeting);
  barrier("meeting to save or to resume");  // then it is open, for all
  const std::vector<std::string> machines = machines_of_ranks();
  table.me = {.rank = group->launch().rank, .world_size = group->launch().world_size};
  table.me.machine = machines.at(static_cast<std::size_t>(table.me.rank));
  table.me.machine_leader = std::ranges::find(machines, table.me.machine) - machines.begin();
  return table;
}

}  // namespace cairn::dist
