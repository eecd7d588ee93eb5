#include "io/threads/retry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "core/text/printable.h"
#include "io/threads/cancellation.h"

namespace cairn {
namespace {

double any_number() {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(random);
}

}  // namespace

std::chrono::milliseconds pause_after(const RetryPolicy& policy, int failures) {
  constexpr int kMaxDoublings = 20;
  const auto whole = std::min(policy.first_pause * (1 << std::min(failures - 1, kMaxDoublings)),
                              policy.longest_pause);
  const double share = 0.5 + (policy.random ? policy.random() : any_number()) / 2;
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(static_cast<double>(whole.count()) * share));
}

std::function<void(const StorageError&, std::chrono::milliseconds)> told_by_lines(
    std::function<void(std::string)> add) {
  return [add = std::move(add)](const StorageError& error, std::chrono::milliseconds pause) {
    add(fmt::format("warning: {}; trying again in {:.1f} s", printable_line(error.what()),
                    std::chrono::duration<double>(pause).count()));
  };
}

// Whether this was the last attempt: `pause` would end after the limits of the policy.
bool Retries::is_last(std::chrono::milliseconds pause) {
  const auto now = policy_.now ? policy_.now() : pause_time();
  if (++failures_ == 1) begin_ = now;
  return failures_ >= policy_.attempts && now + pause > begin_ + policy_.patience;
}

void Retries::pause_or_rethrow(StorageError& error) {
  if (!error.retryable()) throw;
  const auto pause = pause_after(policy_, failures_ + 1);
  if (is_last(pause)) {
    if (policy_.patience.count() > 0) {
      error.add_context(fmt::format(
          "failed for {} s{}, the last time",
          std::chrono::duration_cast<std::chrono::seconds>(policy_.patience).count(),
          policy_.patience_option.empty() ? "" : " (more: " + policy_.patience_option + ")"));
    } else if (policy_.attempts > 1) {
      error.add_context("failed " + std::to_string(policy_.attempts) + " times, the last time");
    }
    throw;
  }
  if (policy_.on_retry) policy_.on_retry(error, pause);
  if (policy_.pause) {
    policy_.pause(pause);
  } else {
    pause_here(pause);
  }
  check_cancelled_here();
}

}  // namespace cairn
