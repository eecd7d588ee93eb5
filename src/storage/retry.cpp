#include "storage/retry.h"

#include <algorithm>
#include <random>
#include <thread>

namespace cairn {
namespace {

std::chrono::milliseconds pause_behind(const RetryPolicy& policy, int attempt) {
  constexpr int kMostDoublings = 20;
  const auto whole = std::min(policy.first_pause * (1 << std::min(attempt - 1, kMostDoublings)),
                              policy.longest_pause);
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_int_distribution<std::int64_t> part(whole.count() / 2, whole.count());
  return std::chrono::milliseconds(part(random));
}

}  // namespace

void pause_or_rethrow(const RetryPolicy& policy, int attempt, StorageError& error) {
  if (!error.retryable()) throw;
  if (attempt >= policy.attempts) {
    if (policy.attempts > 1) {
      error.add_context("failed " + std::to_string(policy.attempts) + " times, the last time");
    }
    throw;
  }
  const auto pause = pause_behind(policy, attempt);
  if (policy.pause) return policy.pause(pause);
  std::this_thread::sleep_for(pause);
}

}  // namespace cairn
