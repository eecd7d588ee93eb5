#include "dist/liveness/status_reporter.h"

#include <exception>
#include <utility>

namespace cairn::dist {
namespace {

// No work that is worth waiting for takes longer.
constexpr std::chrono::hours kLongestWork{6};

}  // namespace

StatusReporter::StatusReporter(LivenessWatch& watch, std::chrono::milliseconds interval)
    : watch_(watch), thread_([this, interval] { report(interval); }) {}

StatusReporter::~StatusReporter() {
  {
    const std::scoped_lock lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StatusReporter::begin_waiting() {
  const std::scoped_lock lock(mutex_);
  ++number_;
  is_waiting_ = true;
}

void StatusReporter::end_waiting() {
  const std::scoped_lock lock(mutex_);
  is_waiting_ = false;
}

std::int64_t StatusReporter::number() {
  const std::scoped_lock lock(mutex_);
  return number_;
}

void StatusReporter::begin_long_work() {
  const std::scoped_lock lock(mutex_);
  if (long_works_++ == 0) busy_since_ = Clock::now();
}

void StatusReporter::end_long_work() {
  const std::scoped_lock lock(mutex_);
  if (long_works_ > 0) --long_works_;  // The LongWork may be older than the group.
}

// Also calls LivenessWatch::show_life() now, since the process may end before the thread's first
// report.
void StatusReporter::show_life() {
  try {
    watch_.show_life();
  } catch (const std::exception&) {  // Rank 0 is gone: a waiting rank will notice.
  }
  const std::scoped_lock lock(mutex_);
  shows_life_ = true;
}

bool StatusReporter::is_busy(Clock::time_point now) const {
  if (is_waiting_) return false;  // This rank waits for the others.
  return long_works_ > 0 && now - busy_since_ >= kLongWait / 2 && now - busy_since_ < kLongestWork;
}

void StatusReporter::report(std::chrono::milliseconds interval) {
  std::int64_t seen = 0;
  std::int64_t told = 0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return is_closing_; })) {
    const std::int64_t number = number_;
    const bool is_long = is_waiting_ && number == std::exchange(seen, number);
    const bool tells = is_long && told != number;
    const bool beats = is_busy(Clock::now());
    const bool lives = shows_life_;
    if (!tells && !beats && !lives) continue;
    lock.unlock();
    try {
      if (tells) watch_.report_number(told = number);
      if (beats) watch_.show_work();
      if (lives) watch_.show_life();
    } catch (const std::exception&) {  // Rank 0 is gone: a waiting rank will notice.
      return;
    }
    lock.lock();
  }
}

}  // namespace cairn::dist
