#include "core/text/printable.h"

#include <gtest/gtest.h>

#include "cairn/error.h"

namespace cairn {
namespace {

TEST(PrintableTest, KeepsTextAndShowsWhatWouldMoveTheCursor) {
  EXPECT_EQ(printable("module.0.weight\nüber 日本 █"), "module.0.weight\nüber 日本 █");
  EXPECT_EQ(printable("a\x1b[2Jb\rc\x7f"), "a\\x1b[2Jb\\x0dc\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "5m"),
            "\\x9b5m");  // ESC [ as one character
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(PrintableTest, ALineStaysOneLine) {
  EXPECT_EQ(printable_line("w\nx.pt  ok\r\x1b[A"), "w\\x0ax.pt  ok\\x0d\\x1b[A");
  EXPECT_EQ(printable_line("a\u2028b\u2029c\u0085d"), "a\\u2028b\\u2029c\\x85d");
  EXPECT_EQ(printable_line("über 日本 █"), "über 日本 █");
}

TEST(PrintableTest, JsonKeepsItsMeaningWithoutControlCharacters) {
  EXPECT_EQ(printable_json("{\"a\x7f\": \"\u009b2J \u00a0ü \u0080\"}"),
            "{\"a\\u007f\": \"\\u009b2J \u00a0ü \\u0080\"}");
  EXPECT_EQ(printable_json("[1]"), "[1]");
}

TEST(ErrorTest, MessagesAreSafeToPrint) {
  CorruptError error("name \x1b[2Jof\nb", "a.pt", 0);
  EXPECT_STREQ(error.what(), "name \\x1b[2Jof\nb");
  error.add_context("loading \x07.pt");
  EXPECT_STREQ(error.what(), "loading \\x07.pt: name \\x1b[2Jof\nb");
}

}  // namespace
}  // namespace cairn
