#include "io/threads/cancellation.h"

#include <thread>

#include "cairn/error.h"

namespace cairn {
namespace {

thread_local Cancellation* this_threads_cancellation = nullptr;

std::atomic<std::shared_ptr<PauseClock>>& pause_clock() {
  static std::atomic<std::shared_ptr<PauseClock>> clock;
  return clock;
}

}  // namespace

void Cancellation::cancel() {
  const std::scoped_lock lock(mutex_);
  if (is_cancelled_) return;
  is_cancelled_ = true;
  changed_.notify_all();
  for (const auto& [number, act] : hooks_) {
    (*act)();
  }
}

void Cancellation::renew() {
  const std::scoped_lock lock(mutex_);
  is_cancelled_ = false;
}

void Cancellation::check() const {
  if (is_cancelled()) throw CancelledError(why_);
}

void Cancellation::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return is_cancelled(); });
}

CancelScope::CancelScope(Cancellation* cancellation) : before_(this_threads_cancellation) {
  this_threads_cancellation = cancellation;
}

CancelScope::~CancelScope() { this_threads_cancellation = before_; }

Cancellation* cancellation_here() { return this_threads_cancellation; }

void set_pause_clock(std::shared_ptr<PauseClock> clock) { pause_clock() = std::move(clock); }

std::chrono::steady_clock::time_point pause_time() {
  const auto clock = pause_clock().load();
  return clock ? clock->now() : std::chrono::steady_clock::now();
}

void pause_here(std::chrono::milliseconds time) {
  if (const auto clock = pause_clock().load()) {
    clock->wait_for(time);
    return check_cancelled_here();
  }
  Cancellation* const here = cancellation_here();
  if (here == nullptr) return std::this_thread::sleep_for(time);
  here->wait_for(time);
  here->check();
}

void check_cancelled_here() {
  if (const Cancellation* const here = cancellation_here()) here->check();
}

CancelHook::CancelHook(std::function<void()> act) : of_(cancellation_here()), act_(std::move(act)) {
  if (of_ == nullptr) return;
  const std::scoped_lock lock(of_->mutex_);
  number_ = of_->next_hook_++;
  of_->hooks_.insert({number_, &act_});
  if (of_->is_cancelled_) act_();
}

CancelHook::~CancelHook() {
  if (of_ == nullptr) return;
  const std::scoped_lock lock(of_->mutex_);
  of_->hooks_.erase(number_);
}

}  // namespace cairn
