#include "cli/view/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <thread>

namespace cairn::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct ProgressBarTest : ::testing::Test {
  ProgressBarOptions options(bool is_terminal) {
    return {.what = "verify", .total = 4 << 20, .is_terminal = is_terminal, .now = [this] {
              return seconds;
            }};
  }

  std::ostringstream out;
  std::ostringstream err;
  Console console{.out = out, .err = err};
  double seconds = 100;
};

TEST_F(ProgressBarTest, IsALineThatIsDrawnAnewAndGoneAtTheEnd) {
  {
    ProgressBar bar(console, options(true));
    bar.add(1 << 20);
    EXPECT_EQ(err.str(), "");  // too early to show anything
    seconds += 1;
    bar.add(1 << 20);
    EXPECT_THAT(err.str(), StartsWith("\r\x1b[Kverify:  50%|"));
    EXPECT_THAT(err.str(), HasSubstr("2.0 MiB/4.0 MiB [00:01<00:01, 2.0 MiB/s]"));
    const std::string drawn = err.str();
    bar.add(1);
    EXPECT_EQ(err.str(), drawn);  // not for every piece
  }
  EXPECT_THAT(err.str(), EndsWith("\r\x1b[K"));
  EXPECT_EQ(out.str(), "");
}

TEST_F(ProgressBarTest, IsALineNowAndThenInALog) {
  ProgressBar bar(console, options(false));
  for (int second = 0; second < 25; ++second) {
    seconds += 1;
    bar.add(1000);
  }
  const std::string log = err.str();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2);
  EXPECT_THAT(log, Not(HasSubstr("\x1b")));
}

TEST_F(ProgressBarTest, QuietShowsNothing) {
  console.quiet = true;
  {
    ProgressBar bar(console, options(true));
    seconds += 60;
    bar.add(1);
  }
  EXPECT_EQ(err.str(), "");
}

TEST_F(ProgressBarTest, CountsWhatSeveralThreadsDo) {
  ProgressBar bar(console, options(true));
  {
    const auto work = [&] {
      for (int i = 0; i < 1024; ++i)
        bar.add(1 << 10);
    };
    std::jthread other(work);
    work();
  }
  seconds += 1;
  bar.add(2 << 20);
  EXPECT_THAT(err.str(), HasSubstr("100%|"));
}

}  // namespace
}  // namespace cairn::cli
