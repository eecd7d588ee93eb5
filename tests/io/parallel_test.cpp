#include "io/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cairn/error.h"

#include "io/cancellation.h"

namespace cairn {
namespace {

TEST(ParallelTest, EveryPieceOfWorkIsDoneOnce) {
  for (const std::size_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> done(count);
    for_each_parallel(count, [&](std::size_t i) { ++done[i]; });
    for (const auto& times : done)
      EXPECT_EQ(times, 1);
  }
}

TEST(ParallelTest, LanesShareTheThreads) {
  constexpr unsigned kThreads = 64;  // more than there are cores
  constexpr unsigned kLanes = 8;
  std::mutex mutex;
  std::set<std::thread::id> lanes;
  std::barrier all_there(kLanes);
  const auto work = [&](std::size_t) {
    all_there.arrive_and_wait();  // each on a thread of its own
    std::set<std::thread::id> threads;
    const auto note = [&](std::size_t) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    };
    for_each_parallel(1000, note, ~std::uint64_t{0}, kThreads);
    EXPECT_LE(threads.size(), std::max(kThreads, std::thread::hardware_concurrency()) / kLanes);
    const std::lock_guard lock(mutex);
    lanes.insert(std::this_thread::get_id());
  };
  for_each_in_lanes(kLanes, kLanes, work);
  EXPECT_EQ(lanes.size(), kLanes);
}

TEST(ParallelTest, BehindLanesThereAreAllThreadsAgain) {
  constexpr unsigned kThreads = 8;
  std::atomic<std::size_t> begun = 0;
  const auto fail = [&](std::size_t) {
    ++begun;
    throw std::runtime_error("one of a million");
  };
  EXPECT_THROW(for_each_in_lanes(4, 1'000'000, fail), std::runtime_error);
  EXPECT_LE(begun, 4);               // what fails in one lane ends the others
  std::barrier all_there(kThreads);  // fewer would wait for ever
  for_each_parallel(
      kThreads, [&](std::size_t) { all_there.arrive_and_wait(); }, ~std::uint64_t{0}, kThreads);
}

TEST(ParallelTest, WhoIsCancelledIsSoOnAllThreads) {
  Cancellation cancellation("the run has ended");
  const CancelScope scope(&cancellation);
  std::atomic<int> begun = 0;
  const auto wait = [&](std::size_t) {
    if (++begun == 4) cancellation.cancel();
    pause_here(std::chrono::hours(1));
  };
  EXPECT_THROW(for_each_parallel(4, wait, ~std::uint64_t{0}, 4), CancelledError);
}

TEST(ParallelTest, AnExceptionStopsTheRestAndReachesTheCaller) {
  std::atomic<std::size_t> done = 0;
  const auto work = [&](std::size_t i) {
    if (i == 3) throw std::runtime_error("three");
    ++done;
  };
  EXPECT_THROW(for_each_parallel(1'000'000, work), std::runtime_error);
  EXPECT_LT(done, 1'000'000 - 1);
}

}  // namespace
}  // namespace cairn
