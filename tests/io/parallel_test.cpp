#include "io/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
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
