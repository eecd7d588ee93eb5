#include "io/retry.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "io/cancellation.h"

namespace cairn {
namespace {

double any_number() {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(random);
}

}  // namespace

std::chrono::milliseconds pause_behind(const RetryPolicy& policy, int failures) {
  constexpr int kMostDoublings = 20;
  const auto whole = std::min(policy.first_pause * (1 << std::min(failures - 1, kMostDoublings)),
                              policy.longest_pause);
  const double share = 0.5 + (policy.random ? policy.random() : any_number()) / 2;
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(static_cast<double>(whole.count()) * share));
}

void pause_or_rethrow(const RetryPolicy& policy, int attempt, StorageError& error) {
  if (!error.retryable()) throw;
  if (attempt >= policy.attempts) {
    if (policy.attempts > 1) {
      error.add_context("failed " + std::to_string(policy.attempts) + " times, the last time");
    }
    throw;
  }
  const auto pause = pause_behind(policy, attempt);
  if (policy.pause) {
    policy.pause(pause);
  } else {
    pause_here(pause);
  }
  check_cancelled_here();
}

}  // namespace cairn
