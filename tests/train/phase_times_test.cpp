// PhaseTimes, with times that are given.

#include "train/loop/report/phase_times.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

using namespace std::chrono_literals;

TEST(PhaseTimes, SharesAddUpToTheWhole) {
  const PhaseTimes::Clock::time_point begin(1h);
  PhaseTimes times(100, begin);
  times.add(Phase::kData, 1s);
  times.add(Phase::kForward, 1s);
  times.add(Phase::kForward, 1s);
  times.add(Phase::kBackward, 4s);
  times.add(Phase::kStep, 500ms);
  times.add(Phase::kSaving, 500ms);
  EXPECT_EQ(times.describe(160, begin + 10s),
            "time: 10.0 s for 60 batches: data 10 %, forward 20 %, backward 40 %, step 5 %, "
            "evaluation 0 %, saving 5 %, other 20 %");
}

TEST(PhaseTimes, NothingWasTrained) {
  const PhaseTimes::Clock::time_point begin(1h);
  EXPECT_EQ(PhaseTimes(0, begin).describe(0, begin),
            "time: 0.0 s for 0 batches: data 0 %, forward 0 %, backward 0 %, step 0 %, "
            "evaluation 0 %, saving 0 %, other 0 %");
}

}  // namespace
}  // namespace cairn
