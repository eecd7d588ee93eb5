#include "io/uri.h"

#include <gmock/gmock.h>

#include "cairn/error.h"

#include "io/file.h"
#include "io/files/append_file.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;
using ::testing::StartsWith;

TEST(UriTest, HasAScheme) {
  EXPECT_EQ(scheme_of("s3://bucket/key"), "s3");
  EXPECT_EQ(scheme_of("libcloud://c"), "libcloud");
  EXPECT_EQ(scheme_of("x-a+b.1://c"), "x-a+b.1");
  EXPECT_EQ(scheme_of("dbfs:/Volumes/a"), "dbfs");
  EXPECT_EQ(scheme_of("s3:/bucket/key"), "s3");
  EXPECT_EQ(scheme_of("s_3://b"), "s_3") << "meant to be one";
  EXPECT_EQ(scheme_of("1s://b"), "1s");
  EXPECT_EQ(scheme_of("x://b"), "x");
  for (const char* path : {"", "a", "/a/s3://b", "./s3://b", "a b/c://d", "c:/windows", "s_3:/b",
                           "://b", "s3:", "s3:b", "lr:0.1/ep1.pt", "ep1:ba2.pt"}) {
    EXPECT_THAT(std::string(scheme_of(path)), IsEmpty()) << path;
  }
}

TEST(UriTest, HasParts) {
  const Uri uri = split_uri("S3://Bucket/a//b?c#d");
  EXPECT_EQ(uri.scheme, "s3");
  EXPECT_EQ(uri.authority, "Bucket");
  EXPECT_EQ(uri.path, "a//b?c#d") << "keys may hold anything";
  EXPECT_EQ(uri.root(), "s3://Bucket");
  EXPECT_EQ(split_uri("s3://bucket").root(), "s3://bucket");
  EXPECT_EQ(split_uri("s3://bucket").path, "");
  EXPECT_EQ(split_uri("dbfs:/Volumes/a").root(), "dbfs:");
  EXPECT_EQ(split_uri("dbfs:/Volumes/a").path, "Volumes/a");
  EXPECT_EQ(split_uri("/a/b").scheme, "");
  EXPECT_EQ(split_uri("/a/b").path, "/a/b");
}

TEST(UriTest, IsRefusedWhereverTheMachinesFilesAreTouched) {
  const std::string uri = "s3://user:canary@bucket/a.pt";
  const auto refused = [](const auto& use) {
    EXPECT_THAT(
        message_of<UnsupportedError>(use),
        AllOf(StartsWith("s3:"), HasSubstr("no store for s3://"), Not(HasSubstr("canary"))));
  };
  FileSystem& files = posix_file_system();
  refused([&] { files.create(uri, {}); });
  refused([&] { testing::file_bytes(files, uri); });
  refused([&] { files.rename("a", uri); });
  refused([&] { files.make_link("a", uri); });
  refused([&] { files.make_folders(uri); });
  refused([&] { files.stat(uri); });
  refused([&] { files.list(uri); });
  refused([&] { const AppendFile file(uri); });
}

}  // namespace
}  // namespace cairn
