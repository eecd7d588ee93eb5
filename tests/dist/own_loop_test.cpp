// cairn::Checkpoints in a job of several processes.
#include <gmock/gmock.h>

#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"

#include "job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::Job;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using ::testing::Each;

TEST(OwnLoopOfRanks, AKilledJobEndsWithTheSameBitsOnEachRank) {
  const TempFolder whole, killed;
  Job straight(2, {OWN_LOOP_PROGRAM, whole.path(), "7"});
  ASSERT_THAT(straight.exit_codes(), Each(0)) << outputs_of(straight);
  // The save of step 4 may not be durable yet at step 6; that of step 2 is.
  Job first(2, {OWN_LOOP_PROGRAM, killed.path(), "7", "6"});
  EXPECT_THAT(first.exit_codes(), Each(1)) << outputs_of(first);
  Job second(2, {OWN_LOOP_PROGRAM, killed.path(), "7"});
  ASSERT_THAT(second.exit_codes(), Each(0)) << outputs_of(second);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NE(rest_of_line(second.output(rank), "resumed 1 from "), "0");
    for (const char* line : {"weights ", "random "}) {
      EXPECT_EQ(rest_of_line(second.output(rank), line), rest_of_line(straight.output(rank), line));
    }
  }
  EXPECT_EQ(rest_of_line(straight.output(0), "weights "),
            rest_of_line(straight.output(1), "weights "));
  EXPECT_NE(rest_of_line(straight.output(0), "random "),
            rest_of_line(straight.output(1), "random "));
  // Step 7 is no multiple of the interval: finish() has saved it, before any rank ended.
  EXPECT_EQ(load(killed / "step7.pt").at("step").as_int(), 7);
}

}  // namespace
}  // namespace cairn
