#include "net/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"

#include "testing/message_of.h"

namespace cairn {
namespace {

TEST(UrlTest, HasParts) {
  const Url url = parse_http_url("HTTPS://Host.example:9000/a/b//", "x");
  EXPECT_EQ(url.origin(), "https://host.example:9000");
  EXPECT_EQ(url.path, "/a/b");
  EXPECT_EQ(parse_http_url("http://h:80", "x").host, "h");
  EXPECT_EQ(parse_http_url("https://h:443/", "x").host, "h");
  EXPECT_EQ(parse_http_url("https://h:80", "x").host, "h:80");
}

TEST(UrlTest, WhatIsNoneIsRefusedWithoutRepeatingIt) {
  for (const char* text :
       {"", "host:9000", "ftp://host", "file:///etc/passwd", "https://", "https://user:canary@host",
        "https://host?key=canary", "https://h#x", "https://ho st"}) {
    EXPECT_THAT(testing::message_of<UsageError>([&] { parse_http_url(text, "S3_ENDPOINT_URL"); }),
                ::testing::AllOf(::testing::HasSubstr("S3_ENDPOINT_URL must be a URL"),
                                 ::testing::Not(::testing::HasSubstr("canary"))))
        << text;
  }
}

TEST(UrlTest, BytesAreEncodedOnce) {
  EXPECT_EQ(percent_encoded("aZ09-._~ /+%\xC3\xBC"), "aZ09-._~%20%2F%2B%25%C3%BC");
  EXPECT_EQ(percent_encoded("a b/c=*", /*keep_slashes=*/true), "a%20b/c%3D%2A");
  EXPECT_EQ(query_text({{"b", "x y"}, {"a", ""}, {"A", "&="}}), "A=%26%3D&a=&b=x%20y");
}

TEST(UrlTest, EncodedBytesAreDecoded) {
  const std::string all = "aZ09-._~ /+%\xC3\xBC";
  EXPECT_EQ(percent_decoded(percent_encoded(all)), all);
  EXPECT_EQ(percent_decoded("%2f%2F+%"), "//+%");
  EXPECT_EQ(percent_decoded("%4%4g%-1%41"), "%4%4g%-1A");
}

}  // namespace
}  // namespace cairn
