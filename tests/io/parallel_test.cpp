#include "io/threads/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cairn/error.h"

#include "io/threads/cancellation.h"

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
  const unsigned all = 8 * std::max(8U, std::thread::hardware_concurrency());
  constexpr unsigned kLanes = 8;
  const unsigned each = all / kLanes;
  std::barrier all_lanes(kLanes);
  const auto work = [&](std::size_t) {
    all_lanes.arrive_and_wait();   // each lane is on a thread of its own
    std::barrier all_there(each);  // would wait for ever for fewer threads
    std::atomic<bool> may_go_on = false;
    const auto wait = [&](std::size_t i) {
      if (i == each) {  // there is one more call than threads: it waits until another call ends
        EXPECT_TRUE(may_go_on);
        return;
      }
      all_there.arrive_and_wait();
      for (int turn = 0; turn < 1000; ++turn) {  // time for a surplus thread to begin
        std::this_thread::yield();
      }
      may_go_on = true;
    };
    for_each_parallel(each + 1, wait, ~std::uint64_t{0}, all);
  };
  for_each_in_lanes(kLanes, kLanes, work);
}

TEST(ParallelTest, BehindLanesThereAreAllThreadsAgain) {
  constexpr unsigned kThreads = 8;
  std::atomic<std::size_t> begun = 0;
  const auto fail = [&](std::size_t) {
    ++begun;
    throw std::runtime_error("one of a million");
  };
  EXPECT_THROW(for_each_in_lanes(4, 1'000'000, fail), std::runtime_error);
  EXPECT_LE(begun, 4);               // a failure in one lane ends the other lanes
  std::barrier all_there(kThreads);  // would wait for ever for fewer threads
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
