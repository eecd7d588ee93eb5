#include "base/printable.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(PrintableTest, KeepsTextAndShowsWhatWouldMoveTheCursor) {
  EXPECT_EQ(printable("module.0.weight\nüber 日本 █"), "module.0.weight\nüber 日本 █");
  EXPECT_EQ(printable("a\x1b[2Jb\rc\x7f"), "a\\x1b[2Jb\\x0dc\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "5m"),
            "\\x9b5m");  // the same as ESC [, in one character
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

}  // namespace
}  // namespace cairn
