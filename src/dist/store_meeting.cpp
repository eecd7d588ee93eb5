#include "dist/store_meeting.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::dist {
namespace {

std::vector<std::uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string to_text(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// The first line of c10d's message; a backtrace follows it.
std::string error_text(const std::exception& e) noexcept {
  try {
    const std::string text = e.what();
    return "c10d: " + text.substr(0, text.find('\n'));
  } catch (const std::bad_alloc&) {
    return "no memory";  // This text allocates nothing.
  }
}

}  // namespace

struct StoreMeeting::Line {
  c10::intrusive_ptr<c10d::Store> store;
  std::mutex mutex;
  std::condition_variable changed;
  std::function<Answer(c10d::Store&)> call;  // To be made, or being made.
  std::uint64_t asked = 0;
  std::uint64_t answered = 0;
  Answer answer;
  std::string error;  // The last call's error. Empty: the call was answered.
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

// Step 1, on the thread.
void StoreMeeting::serve(const std::shared_ptr<Line>& line) {
  std::unique_lock lock(line->mutex);
  for (;;) {
    line->changed.wait(lock, [&] { return line->is_closing || line->asked != line->answered; });
    if (line->asked == line->answered) return;
    const auto call = std::exchange(line->call, nullptr);
    lock.unlock();
    Answer answer;
    std::string error;
    try {
      answer = call(*line->store);
    } catch (const std::exception& e) {
      error = error_text(e);
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
  if (!line_->changed.wait_until(lock, deadline, is_idle)) throw no_answer();  // Step 2.
  line_->call = std::move(call);
  ++line_->asked;
  line_->changed.notify_all();
  if (!line_->changed.wait_until(lock, deadline, is_idle)) throw no_answer();
  if (!line_->error.empty()) throw MeetingError(line_->error);
  return std::exchange(line_->answer, std::nullopt);
}

// TCPStore sends the value without waiting for an answer, and may serve another connection before
// this one. So check() follows: the server answers it only after it has the value.
void StoreMeeting::set(const std::string& key, const std::string& value) {
  ask([=](c10d::Store& store) -> Answer {
    store.set(key, to_bytes(value));
    store.check({key});
    return std::nullopt;
  });
}

// Checks first, since get() alone would wait for the key.
std::optional<std::string> StoreMeeting::find(const std::string& key) {
  return ask([=](c10d::Store& store) -> Answer {
    if (!store.check({key})) return std::nullopt;
    return to_text(store.get(key));
  });
}

// Checks first: for a missing key, compareSet() of libtorch 1.13 returns the expected value, and
// stores nothing.
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

bool StoreMeeting::is_sound() const {
  const std::scoped_lock lock(line_->mutex);
  return line_->asked == line_->answered && line_->error.empty();
}

}  // namespace cairn::dist
