// Composer's arguments of a store, by name: each reaches the server of its scheme.
#include "storage/compat/store_with_kwargs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "azure_fixture.h"
#include "gcs_fixture.h"
#include "oci_fixture.h"
#include "s3_fixture.h"
#include "sftp_fixture.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

TEST(StoreKwargsTest, GooglesAreTaken) {
  const testing::CleanGoogleEnvironment clean;
  GcsServed served;
  const auto store = store_with_kwargs("gs://bucket", {{"prefix", "runs"},
                                                       {"key", served.keys.key},
                                                       {"secret", served.keys.secret},
                                                       {"endpoint_url", served.fake.url()}});
  write_text(*store, "gs://bucket/a", "bytes");
  EXPECT_EQ(served.fake.object("bucket/runs/a"), "bytes");
  EXPECT_THAT(message_of<NotFoundError>([] {
                store_with_kwargs("gs://bucket", {{"credentials_file", "/nonexistent/robot.json"}});
              }),
              HasSubstr("/nonexistent/robot.json"));
}

TEST(StoreKwargsTest, OraclesAreTaken) {
  const testing::EnvironmentVariable without("SSL_CERT_FILE", nullptr);
  OciServed served;
  const BackendKwargs kwargs = {{"prefix", "runs"},
                                {"config_file", served.folder / "config"},
                                {"endpoint_url", served.fake.url()}};
  write_text(*store_with_kwargs("oci://bucket", kwargs), "oci://bucket/a", "bytes");
  EXPECT_EQ(served.fake.objects()["runs/a"], "bytes");
  BackendKwargs other = kwargs;
  other["profile"] = "SESSION";
  EXPECT_THROW(store_with_kwargs("oci://bucket", other), UnsupportedError);
}

TEST(StoreKwargsTest, AzuresAreTakenByItsNamesAndByLibclouds) {
  testing::CleanAzureEnvironment environment;
  AzureServed served;
  environment.set("MY_ACCOUNT", served.keys.account.c_str());
  environment.set("MY_KEY", served.keys.key.c_str());
  const std::vector<BackendKwargs> ways = {
      {{"account_name", served.keys.account}, {"account_key", served.keys.key}},
      {{"provider", "AZURE_BLOBS"}, {"key_environ", "MY_ACCOUNT"}, {"secret_environ", "MY_KEY"}}};
  for (BackendKwargs kwargs : ways) {
    kwargs["endpoint_url"] = served.fake.endpoint();
    kwargs["prefix"] = "runs";
    const auto store = store_with_kwargs("azure://container", kwargs);
    write_text(*store, "azure://container/a", "bytes");
    EXPECT_EQ(read_text(*store, "a"), "bytes");
  }
  EXPECT_TRUE(served.fake.objects().contains("runs/a"));
  EXPECT_THAT(message_of<UsageError>([] {
                store_with_kwargs("azure://container", {{"provider", "s3"}});
              }),
              HasSubstr("AZURE_BLOBS"));
  EXPECT_THAT(message_of<UsageError>([] {
                store_with_kwargs("azure://container", {{"key_environ", "canary-key-itself"}});
              }),
              AllOf(HasSubstr("key_environ must be the name of an environment variable"),
                    Not(HasSubstr("canary"))));
}

TEST(StoreKwargsTest, APlaceWithAPasswordIsRefusedAsEverywhere) {
  for (const char* place : {"s3://AKIA:canary@bucket", "s3://AKIA:ca/canary@bucket/x",
                            "gs://key:canary@bucket", "oci://u:canary/x"}) {
    EXPECT_THAT(message_of<UsageError>([&] { store_with_kwargs(place, {}); }),
                AllOf(HasSubstr("a password in a place"), Not(HasSubstr("canary"))));
  }
}

// With an `ssh` that records its arguments.
TEST(StoreKwargsTest, ThoseOfSftpBecomeArgumentsOfSsh) {
  if (sftp_server().empty()) GTEST_SKIP() << "OpenSSH's sftp-server is not installed";
  const testing::TempFolder folder;
  const testing::TempFolder shown;
  testing::write_file(folder / "ssh", "#!/bin/sh\necho \"$@\" > '" + (folder / "arguments") +
                                          "'\nexec " + sftp_server() + " -d " + shown.path() +
                                          "\n");
  ASSERT_EQ(std::system(("chmod +x '" + (folder / "ssh") + "'").c_str()), 0);
  const testing::EnvironmentVariable path("PATH", (folder.path() + ":/usr/bin:/bin").c_str());
  const testing::EnvironmentVariable key("MY_KEY_FILE", "/keys/mine");
  const auto store =
      store_with_kwargs("sftp://host.lan", {{"username", "me"},
                                            {"port", "2022"},
                                            {"key_filename_environ", "MY_KEY_FILE"},
                                            {"known_hosts_filename", "/keys/known"},
                                            {"missing_host_key_policy", "AutoAddPolicy"},
                                            {"cwd", "below"}});
  put_text(*store, "run/a", "bytes");
  EXPECT_EQ(testing::read_file(shown / "below/run/a"), "bytes");
  EXPECT_THAT(testing::read_file(folder / "arguments"),
              AllOf(HasSubstr("-p 2022"), HasSubstr("-l me"), HasSubstr("-i /keys/mine"),
                    HasSubstr("UserKnownHostsFile=\"/keys/known\""),
                    HasSubstr("StrictHostKeyChecking=accept-new"), HasSubstr("-- host.lan")));
}

TEST(StoreKwargsTest, WhatSftpCannotHaveIsRefused) {
  const auto refused = [](const std::string& place, const BackendKwargs& kwargs) {
    return message_of<UsageError>([&] { store_with_kwargs(place, kwargs); });
  };
  EXPECT_THAT(refused("sftp://host", {{"password", "canary"}}),
              AllOf(HasSubstr("key_filename"), Not(HasSubstr("canary"))));
  EXPECT_THAT(refused("sftp://me@host", {{"username", "you"}}), HasSubstr("username is in"));
  EXPECT_THAT(refused("sftp://host:22", {{"port", "23"}}), HasSubstr("port is in"));
  EXPECT_THAT(refused("sftp://host", {{"host", "other"}}), HasSubstr("host is in"));
  EXPECT_THAT(refused("sftp://host", {{"port", "x"}}), HasSubstr("no number"));
  EXPECT_THAT(refused("sftp://host", {{"missing_host_key_policy", "Maybe"}}),
              HasSubstr("RejectPolicy, AutoAddPolicy or WarningPolicy"));
}

TEST(StoreKwargsTest, ProviderKwargsMayBeNestedAsInComposer) {
  const testing::CleanAwsEnvironment environment;
  const testing::FakeS3Options keys;
  testing::FakeS3 fake;
  const BackendKwargs kwargs = {{"provider", "MINIO"},
                                {"container", "bucket"},
                                {"provider_kwargs",
                                 {{"key", keys.access_key},
                                  {"secret", keys.secret_key},
                                  {"host", "127.0.0.1"},
                                  {"port", std::to_string(fake.port())},
                                  {"secure", "false"}}}};
  const auto store = store_with_kwargs("libcloud://bucket", kwargs);
  write_text(*store, "libcloud://bucket/a", "bytes");
  EXPECT_EQ(read_text(*store, "a"), "bytes");
}

TEST(StoreKwargsTest, WhatIsNestedWhereItIsNotAndWhatIsThereTwiceIsRefused) {
  const auto refused = [](const std::string& place, const BackendKwargs& kwargs) {
    return message_of<UsageError>([&] { store_with_kwargs(place, kwargs); });
  };
  const BackendKwarg::Nested nested = {{"key", "canary"}};
  EXPECT_THAT(refused("s3://bucket", {{"provider_kwargs", nested}}),
              AllOf(HasSubstr("\"provider_kwargs\" is one text"), Not(HasSubstr("canary"))));
  EXPECT_THAT(refused("libcloud://bucket", {{"provider_kwargs", "canary"}}),
              AllOf(HasSubstr("several texts by name"), Not(HasSubstr("canary"))));
  EXPECT_THAT(refused("libcloud://bucket", {{"key", "one"}, {"provider_kwargs", nested}}),
              AllOf(HasSubstr("\"key\" is there twice"), Not(HasSubstr("canary"))));
}

TEST(StoreKwargsTest, WhatThereIsNotIsNamedWithWhatThereIs) {
  const auto refused = [](const std::string& place) {
    return message_of<UsageError>([&] { store_with_kwargs(place, {{"regoin", "canary"}}); });
  };
  for (const auto& [place, known] :
       std::map<std::string, std::string>{{"gs://bucket", "bucket, prefix, key, secret"},
                                          {"oci://bucket", "config_file, profile, region"},
                                          {"azure://container", "provider, key_environ"},
                                          {"sftp://host", "cwd, port, key_filename_environ"}}) {
    EXPECT_THAT(refused(place),
                AllOf(HasSubstr("backend_kwargs of " + place), HasSubstr("\"regoin\""),
                      HasSubstr(known), Not(HasSubstr("canary"))));
  }
}

// --- libcloud:// as a place ----------------------------------------------------------------------

class LibcloudPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set("CAIRN_LIBCLOUD_PROVIDER", "MINIO");
    set("CAIRN_LIBCLOUD_HOST", "127.0.0.1");
    set("CAIRN_LIBCLOUD_PORT", std::to_string(fake_.port()));
    set("CAIRN_LIBCLOUD_SECURE", "false");
    set("CAIRN_LIBCLOUD_KEY_ENVIRON", "OBJECT_STORE_KEY");
    set("CAIRN_LIBCLOUD_SECRET_ENVIRON", "OBJECT_STORE_SECRET");
    set("OBJECT_STORE_KEY", keys_.access_key);
    set("OBJECT_STORE_SECRET", keys_.secret_key);
  }
  void set(const char* name, const std::string& value) { environment_.set(name, value.c_str()); }
  static std::string refused(const std::string& place) {
    return message_of([&] { object_store_of(place); });
  }

  testing::FakeS3Options keys_;
  testing::FakeS3 fake_;
  testing::CleanAwsEnvironment environment_;
};

TEST_F(LibcloudPlaceTest, ACheckpointIsSavedFoundVerifiedAndLoaded) {
  const std::string folder = "libcloud://bucket/run";
  for (const std::int64_t batch : {1, 2}) {
    save(testing::sample_checkpoint(batch),
         folder + "/ep0-ba" + std::to_string(batch) + "-rank0.pt",
         {.info = testing::sample_info(batch)});
  }
  EXPECT_TRUE(fake_.objects().contains("bucket/run/ep0-ba2-rank0.pt"));
  const auto found = find_latest(folder);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->checkpoint.verify().ok());
  EXPECT_EQ(testing::batch_of_sample(load(found->checkpoint)), 2);
}

TEST_F(LibcloudPlaceTest, OneStoreIsKeptForOneProviderAndItsKeys) {
  const auto write = [](const std::string& place) {
    write_text(*object_store_of(place), place, "bytes");
  };
  write("libcloud://bucket/a");
  const std::size_t first = fake_.count("PUT ");
  write("libcloud://bucket/b");
  EXPECT_EQ(fake_.count("PUT "), first + 1) << "what the server can do is known";
  set("OBJECT_STORE_SECRET", "canary-wrong");
  EXPECT_THAT(message_of<StorageError>(
                  [] { object_store_of("libcloud://bucket/a")->stat("libcloud://bucket/a"); }),
              AllOf(HasSubstr("SignatureDoesNotMatch"), Not(HasSubstr("canary"))));
}

TEST_F(LibcloudPlaceTest, WhatIsMissingIsNamed) {
  set("CAIRN_LIBCLOUD_PROVIDER", "");
  EXPECT_THAT(refused("libcloud://bucket/a"), HasSubstr("CAIRN_LIBCLOUD_PROVIDER"));
  set("CAIRN_LIBCLOUD_PROVIDER", "backblaze_b2");
  EXPECT_THAT(refused("libcloud://bucket/a"), HasSubstr("S3 interface"));
  set("CAIRN_LIBCLOUD_PROVIDER", "magicloud");
  EXPECT_THAT(refused("libcloud://bucket/a"), HasSubstr("is none of s3, "));
  set("CAIRN_LIBCLOUD_PROVIDER", "minio");
  set("CAIRN_LIBCLOUD_PORT", "many");
  EXPECT_THAT(refused("libcloud://bucket/a"),
              AllOf(HasSubstr("CAIRN_LIBCLOUD_"), HasSubstr("port \"many\"")));
  set("CAIRN_LIBCLOUD_PORT", "1");
  EXPECT_THAT(refused("libcloud:///a"), HasSubstr("container"));
}

}  // namespace
}  // namespace cairn
