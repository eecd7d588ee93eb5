#include "terminal/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace cairn {
namespace {

using ::testing::HasSubstr;

TEST(ProgressLineTest, HasTqdmsLayout) {
  const Progress progress = {.description = "train          Epoch   1: ",
                             .unit = "ba",
                             .n = 10,
                             .total = 40,
                             .seconds = 4,
                             .metrics = {{"loss/train/total", "0.2500"}}};
  EXPECT_EQ(progress_line(progress, 0),
            "train          Epoch   1:  25%|██████▎                  | 10/40 "
            "[00:04<00:12, 2.50ba/s, loss/train/total=0.2500]");
}

TEST(ProgressLineTest, RateCountsFromTheStartOfThisProcess) {
  const Progress progress = {.unit = "ba", .n = 30, .total = 40, .initial = 20, .seconds = 5};
  EXPECT_THAT(progress_line(progress, 0), HasSubstr("[00:05<00:05, 2.00ba/s]"));
}

TEST(ProgressLineTest, UnknownTotalAndRateAreNoDivisionByZero) {
  EXPECT_EQ(progress_line({.description = "d: ", .unit = "ba", .n = 3, .seconds = 7205}, 0),
            "d: 3 [2:00:05, 2401.67s/ba]");
  EXPECT_EQ(progress_line({.unit = "ba", .total = 5}, 0),
            "  0%|                         | 0/5 [00:00<?, ?ba/s]");
}

TEST(ProgressLineTest, IsCutAtTheWidthInColumnsNotBytes) {
  const std::string line = progress_line({.unit = "ba", .n = 5, .total = 5, .seconds = 1}, 10);
  EXPECT_EQ(line, "100%|████…");
}

TEST(ProgressLineTest, BytesHaveTheirUnits) {
  EXPECT_EQ(
      progress_line(
          {.description = "verify: ", .unit = "B", .n = 3 << 20, .total = 6 << 20, .seconds = 2},
          0),
      "verify:  50%|████████████▌            | 3.0 MiB/6.0 MiB [00:02<00:02, 1.5 MiB/s]");
}

TEST(ProgressLineTest, IsDrawnOverTheLineBeforeOnATerminalAndBelowItInALog) {
  const Progress progress = {.description = "d: ", .unit = "ba", .n = 3};
  const std::string line = progress_line(progress, 0);
  std::ostringstream terminal;
  draw_progress(terminal, progress, {.is_terminal = true});
  draw_progress(terminal, progress, {.is_terminal = true, .stays = true});
  erase_progress(terminal);
  EXPECT_EQ(terminal.str(), "\r\x1b[K" + line + "\r\x1b[K" + line + "\n\r\x1b[K");
  std::ostringstream log;
  draw_progress(log, progress, {});
  draw_progress(log, progress, {.stays = true});
  EXPECT_EQ(log.str(), line + "\n" + line + "\n");
}

}  // namespace
}  // namespace cairn
