#include "net/net_time.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(NetTimeTest, IsReadAndWritten) {
  const auto time = parse_http_date("Fri, 24 May 2013 00:00:09 GMT");
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(basic_iso_time(*time), "20130524T000009Z");
  EXPECT_EQ(http_date(*time), "Fri, 24 May 2013 00:00:09 GMT");
  EXPECT_EQ(parse_iso_time("2013-05-24T00:00:09Z"), time);
  EXPECT_EQ(parse_iso_time("2013-05-24T00:00:09.123Z"), time);
  EXPECT_EQ(parse_iso_time("2013-05-24T00:00:09+00:00"), time);
  EXPECT_EQ(parse_iso_time("2013-05-24T01:30:09.123+01:30"), time);
  EXPECT_EQ(parse_iso_time("2013-05-23T20:00:09-0400"), time);
}

// Times beyond the range of a clock that counts nanoseconds are clamped to its first or last time.
TEST(NetTimeTest, WhatIsTooFarAwayIsAsFarAsCanBe) {
  EXPECT_EQ(parse_iso_time("2999-01-01T00:00:00Z"), parse_iso_time("9999-12-31T23:59:59Z"));
  EXPECT_GT(parse_iso_time("2999-01-01T00:00:00Z"), parse_iso_time("2262-01-01T00:00:00Z"));
  EXPECT_LT(parse_iso_time("0001-01-01T00:00:00Z"), parse_iso_time("1678-01-01T00:00:00Z"));
}

TEST(NetTimeTest, WhatIsNoneIsNone) {
  for (const char* text : {"", "Fri, 24 May 2013 00:00:09", "Fri, 24 Mai 2013 00:00:09 GMT",
                           "Fri, 31 Feb 2013 00:00:09 GMT", "Fri, 24 May 2013 24:00:09 GMT"}) {
    EXPECT_FALSE(parse_http_date(text)) << text;
  }
  for (const char* text :
       {"", "2013-05-24", "2013-05-24T00:00:09", "2013-13-24T00:00:09Z", "2013-05-24T00:00:09+1:00",
        "2013-05-24T00:00:09+01:60", "2013-05-24T00:00:09+24:00", "2013-05-24T00:00:09 01:00",
        "2013-05-24T00:00:09.5"}) {
    EXPECT_FALSE(parse_iso_time(text)) << text;
  }
}

}  // namespace
}  // namespace cairn
