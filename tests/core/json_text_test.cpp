#include "core/text/json_text.h"

#include <gtest/gtest.h>

#include "core/text/json.h"

namespace cairn {
namespace {

TEST(JsonTextTest, ReplacesBytesAndEscapesControlCharacters) {
  EXPECT_EQ(json_text(Json("a\xff\x7f\x1b"), -1), "\"a\xef\xbf\xbd\\u007f\\u001b\"");
}

TEST(JsonTextTest, KeepsTheOrderThatTheObjectKeeps) {
  const auto fill = [](auto object) {
    object["b"] = 1;
    object["a"] = 2;
    return object;
  };
  EXPECT_EQ(json_text(fill(OrderedJson()), -1), R"({"b":1,"a":2})");
  EXPECT_EQ(json_text(fill(Json()), 1), "{\n \"a\": 2,\n \"b\": 1\n}");
}

}  // namespace
}  // namespace cairn
