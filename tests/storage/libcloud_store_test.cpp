#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"
#include "cairn/storage/libcloud.h"

#include "gcs_fixture.h"
#include "s3_fixture.h"
#include "testing/message_of.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

struct LibcloudTest : ::testing::Test {
  LibcloudOptions options() {
    return {.provider = "MINIO",
            .container = "bucket",
            .key = keys.access_key,
            .secret = keys.secret_key,
            .host = "127.0.0.1",
            .port = fake.port(),
            .secure = false};
  }
  testing::FakeS3Options keys;
  testing::FakeS3 fake;
  testing::CleanAwsEnvironment environment;
};

TEST_F(LibcloudTest, AProviderIsAStore) {
  const auto store = libcloud_store(options());
  write_text(*store, "folder/subfolder/name", "bytes");
  EXPECT_EQ(read_text(*store, "folder/subfolder/name"), "bytes");
  EXPECT_TRUE(fake.objects().contains("bucket/folder/subfolder/name"));
}

TEST_F(LibcloudTest, KeysMayBeNamedByVariables) {
  LibcloudOptions with = options();
  with.key = with.secret = "";
  with.key_environ = "OBJECT_STORE_KEY";
  with.secret_environ = "OBJECT_STORE_SECRET";
  EXPECT_THAT(message_of<UsageError>([&] { libcloud_store(with); }),
              AllOf(HasSubstr("key_environ must be the name of an environment variable"),
                    Not(HasSubstr("OBJECT_STORE_KEY"))))
      << "it may be the key itself";
  environment.set("OBJECT_STORE_KEY", keys.access_key.c_str());
  environment.set("OBJECT_STORE_SECRET", keys.secret_key.c_str());
  const auto store = libcloud_store(with);
  write_text(*store, "a", "bytes");
  EXPECT_EQ(read_text(*store, "a"), "bytes");
}

TEST_F(LibcloudTest, WhatCannotBeIsRefusedWithWhatToDo) {
  const auto refused = [&](const char* provider, const char* host) {
    LibcloudOptions with = options();
    with.provider = provider;
    with.host = host;
    return message_of([&] { libcloud_store(with); });
  };
  EXPECT_THAT(refused("local", ""), HasSubstr("a path"));
  EXPECT_THAT(refused("magicloud", ""),
              AllOf(HasSubstr("is none of s3, "), Not(HasSubstr("canary"))));
  EXPECT_THAT(refused("minio", ""), HasSubstr("needs the host"));
  EXPECT_THROW(libcloud_store({.provider = "s3"}), UsageError);
  EXPECT_THROW(libcloud_store({.container = "a"}), UsageError);
}

TEST_F(LibcloudTest, GooglesStorageIsAStore) {
  GcsServed served;
  const testing::CleanGoogleEnvironment clean;
  const auto store = libcloud_store({.provider = "GOOGLE_STORAGE",
                                     .container = "bucket",
                                     .key = served.keys.key,
                                     .secret = served.keys.secret,
                                     .host = "127.0.0.1",
                                     .port = served.fake.port(),
                                     .secure = false});
  write_text(*store, "a", "bytes");
  EXPECT_EQ(served.fake.object("bucket/a"), "bytes");
  const auto robot = [] {
    libcloud_store({.provider = "google_storage",
                    .container = "bucket",
                    .key = "robot@project.iam.gserviceaccount.com",
                    .secret = "/nonexistent/robot.json"});
  };
  EXPECT_THAT(message_of<NotFoundError>(robot), HasSubstr("/nonexistent/robot.json"));
}

TEST_F(LibcloudTest, TheHparamsOfOlderComposersAreTheSame) {
  environment.set("OBJECT_STORE_KEY", keys.access_key.c_str());
  environment.set("OBJECT_STORE_SECRET", keys.secret_key.c_str());
  const ObjectStoreHparams hp = {.provider = "s3",
                                 .container = "bucket",
                                 .key_environ = "OBJECT_STORE_KEY",
                                 .secret_environ = "OBJECT_STORE_SECRET",
                                 .region = "us-east-1"};
  EXPECT_THAT(hp.initialize_object()->describe("a"), HasSubstr("s3://bucket/a"));
}

}  // namespace
}  // namespace cairn
