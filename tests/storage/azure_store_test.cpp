#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/azure.h"
#include "cairn/storage/libcloud.h"

#include "azure_fixture.h"
#include "s3_fixture.h"
#include "storage/listing.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "testing/sample_checkpoint.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeAzure;
using testing::FakeAzureOptions;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

const std::string kBlocks(5 << 19, 'b');  // 2.5 of the fixture's parts

// --- What is sent --------------------------------------------------------------------------------

TEST(AzureStoreTest, OneOfOnePartIsOneRequestAndALook) {
  AzureServed served;
  write_text(*served.store(), "run/a b+ü.pt", "bytes");
  EXPECT_EQ(served.fake.objects().at("run/a b+ü.pt"), "bytes");
  EXPECT_EQ(served.fake.count("PUT "), 1U);
  EXPECT_EQ(served.fake.last_header("x-ms-blob-type", "PUT"), "BlockBlob");
}

TEST(AzureStoreTest, ALargeOneIsBlocksAndTheirList) {
  AzureServed served;
  const auto store = served.store();
  write_text(*store, "a", kBlocks, WriteCondition::absent());
  EXPECT_EQ(served.fake.count("PUT /fakeaccount/container/a?blockid="), 3U);
  EXPECT_EQ(served.fake.count("PUT /fakeaccount/container/a?comp=blocklist"), 1U);
  EXPECT_TRUE(served.fake.objects().at("a") == kBlocks);
  EXPECT_TRUE(read_text(*store, "a") == kBlocks);
  EXPECT_THROW(write_text(*store, "a", kBlocks, WriteCondition::absent()), AlreadyExistsError);
  const std::string version = store->stat("a")->version;
  write_text(*store, "a", kBlocks, WriteCondition::of_version(version));
  EXPECT_THROW(write_text(*store, "a", kBlocks, WriteCondition::of_version(version)),
               AlreadyExistsError);
}

// The fake, like Azure, accepts bodies without an MD5.
TEST(AzureStoreTest, EveryBodyGoesWithItsMd5) {
  AzureServed served;
  std::vector<std::string> without;
  served.fake.watch(
      [&](const testing::ReceivedRequest& asked, const testing::HttpReply& /*reply*/) {
        if (!asked.body.empty() && asked.header("content-md5").empty())
          without.push_back(asked.target);
      });
  write_text(*served.store(), "a", "bytes");
  write_text(*served.store(), "b", kBlocks);
  EXPECT_THAT(without, ElementsAre());
  EXPECT_EQ(served.fake.last_header("x-ms-version"), "2021-12-02");
}

TEST(AzureStoreTest, ListsTellWhatHeadersTell) {
  AzureServed served;
  const auto store = served.store();
  for (const std::string name : {"a&b", "<c>", "d e", "f\x01g", "h%20i", "ü"}) {
    write_text(*store, "run/" + name, name);
  }
  for (const ListedName& listed : list_all(*store, "run")) {
    const auto there = store->stat("run/" + listed.name);
    ASSERT_TRUE(there) << listed.name;
    EXPECT_EQ(listed.info->version, there->version);
    EXPECT_EQ(read_text(*store, "run/" + listed.name), listed.name);
  }
  EXPECT_EQ(list_names(*store, "run").size(), 6U);
}

TEST(AzureStoreTest, APageOfNothingIsNotTheEnd) {
  AzureServed served({.empty_pages = true});
  const auto store = served.store();
  write_text(*store, "run/ep1/a", "x");
  EXPECT_THAT(list_names(*store, "run"), ElementsAre("ep1"));
  EXPECT_EQ(store->stat("run/ep1")->type, ObjectInfo::Type::kFolder);
  EXPECT_TRUE(store->remove_folder("run/ep1"));
  EXPECT_TRUE(served.fake.objects().empty());
  EXPECT_FALSE(store->stat("run/ep1"));
}

// --- Who signs -----------------------------------------------------------------------------------

TEST(AzureStoreTest, ATokenSignsInPlaceOfAKey) {
  AzureServed served;
  AzureOptions options = served.options();
  options.account_key.clear();
  options.sas_token = "?" + served.fake.sas("rwdl", std::chrono::hours(1));
  const auto store = served.store(options);
  write_text(*store, "a", kBlocks);
  store->rename("a", "b");
  EXPECT_THAT(list_names(*store, ""), ElementsAre("b"));
  EXPECT_EQ(served.fake.last_header("authorization"), "");
}

TEST(AzureStoreTest, ARefusalTellsWhatToCheckAndNoSecret) {
  AzureServed served;
  AzureOptions options = served.options();
  options.account_key = "d3JvbmctY2FuYXJ5";
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*served.store(options), "a", "x"); }),
              AllOf(HasSubstr("AuthenticationFailed"), HasSubstr("AZURE_ACCOUNT_ACCESS_KEY"),
                    Not(HasSubstr("d3JvbmctY2FuYXJ5"))));
  options.account_key.clear();
  options.sas_token = served.fake.sas("r", std::chrono::hours(1));
  const std::string signature = options.sas_token.substr(options.sas_token.find("sig=") + 4);
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*served.store(options), "a", "x"); }),
              AllOf(HasSubstr("403 AuthorizationPermissionMismatch"), HasSubstr("may do"),
                    Not(HasSubstr(signature))));
  options.sas_token = served.fake.sas("rwdl", std::chrono::hours(-1));
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*served.store(options), "a", "x"); }),
              HasSubstr("has ended"));
  options = served.options();
  options.container = "other";
  EXPECT_THAT(message_of<NotFoundError>([&] { served.store(options)->open("a"); }),
              HasSubstr("make it, or check its name"));
}

TEST(AzureStoreTest, AClockThatIsWrongIsCorrectedByTheServers) {
  AzureServed served({.skew_seconds = 3600});
  const auto store = served.store();
  write_text(*store, "a", "bytes");
  EXPECT_EQ(read_text(*store, "a"), "bytes");
}

// --- Servers that fail ---------------------------------------------------------------------------

TEST(AzureStoreTest, ALostAnswerIsNeitherAFailureNorADuplicate) {
  AzureServed served;
  const auto store = served.store();
  const testing::HttpReply lost = {.sends_at_most = 0};
  served.fake.answer_next("PUT /fakeaccount/container/a", lost, 1, FakeAzure::When::kAfter);
  write_text(*store, "a", "bytes", WriteCondition::absent());
  served.fake.answer_next("PUT /fakeaccount/container/b?comp=blocklist", lost, 1,
                          FakeAzure::When::kAfter);
  write_text(*store, "b", kBlocks, WriteCondition::absent());
  EXPECT_EQ(read_text(*store, "a"), "bytes");
  EXPECT_TRUE(read_text(*store, "b") == kBlocks);
}

TEST(AzureStoreTest, OfTwoWritersOfLargeOnesTheSecondIsTold) {
  AzureServed served;
  const auto store = served.store();
  const auto one = store->begin("a");
  one->write(as_bytes(std::string(6 << 20, 'b')));  // more than is hashed and under way at once
  write_text(*store, "a", std::string(kBlocks.size(), 'c'));
  const std::string message = message_of<StorageError>([&] { one->commit(); });
  EXPECT_THAT(message, HasSubstr("was removed before it was complete; write it again"));
  EXPECT_EQ(read_text(*store, "a"), std::string(kBlocks.size(), 'c'));
}

TEST(AzureStoreTest, WhatTheServerHasInsteadIsNotTakenForWhatWasSent) {
  AzureServed served;
  const auto store = served.store();
  served.fake.answer_next("PUT /fakeaccount/container/a?blockid",
                          {.status = 201, .headers = {{"Content-MD5", "b3RoZXI="}}});
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store, "a", kBlocks); }),
              HasSubstr("other bytes than were sent"));
  write_text(*store, "a", "one");
  write_text(*store, "b", kBlocks);
  served.keys.keeps_old = true;
  served.fake.change(served.keys);
  for (const char* name : {"a", "b"}) {
    EXPECT_THAT(
        message_of<StorageError>([&] { write_text(*store, name, *name == 'a' ? "two" : kBlocks); }),
        HasSubstr("the server does not have what was written"));
  }
}

TEST(AzureStoreTest, AListThatBreaksOffIsNotAllThereIs) {
  AzureServed served;
  const auto store = served.store();
  write_text(*store, "run/a", "x");
  const std::string list = "GET /fakeaccount/container?";
  served.fake.answer_next(list, {.body = "<EnumerationResults><Blobs/>"}, 1);
  EXPECT_THAT(list_names(*store, "run"), ElementsAre("a"));
  served.fake.answer_next(list, {.body = "<EnumerationResults><Blobs/>"}, 20);
  EXPECT_THAT(message_of<StorageError>([&] { list_names(*store, "run"); }), HasSubstr("broken"));
  served.fake.forget_plans();
  served.fake.answer_next(list, {.body = "<html/>"}, 1);
  EXPECT_THAT(message_of<StorageError>([&] { list_names(*store, "run"); }),
              AllOf(HasSubstr("listing azure://container/run/"), HasSubstr("EnumerationResults")));
  const testing::HttpReply stuck = {
      .body = "<EnumerationResults><Blobs/><NextMarker>m</NextMarker></EnumerationResults>"};
  served.fake.answer_next(list, stuck, 20);
  EXPECT_THAT(message_of<StorageError>([&] { list_names(*store, "run"); }),
              HasSubstr("this page as the next page"));
}

TEST(AzureStoreTest, ACopyIsWaitedFor) {
  AzureServed served({.pending_copies = 3});
  const auto store = served.store();
  write_text(*store, "a", "bytes");
  store->rename("a", "b");
  EXPECT_EQ(read_text(*store, "b"), "bytes");
  EXPECT_FALSE(store->stat("a"));
  served.keys.pending_copies = 1000;
  served.fake.change(served.keys);
  EXPECT_THAT(message_of<StorageError>([&] { store->rename("b", "c"); }),
              HasSubstr("makes no progress"));
  EXPECT_EQ(read_text(*store, "b"), "bytes");
}

// --- Where the configuration comes from ----------------------------------------------------------

TEST(AzurePlaceTest, ComposersVariablesAreEnough) {
  testing::FakeAzure fake;
  const testing::AzureEnvironment environment(fake);
  save(testing::sample_checkpoint(1), "azure://container/run/ep1.pt");
  EXPECT_EQ(testing::batch_of_sample(load("azure://container/run/ep1.pt")), 1);
  EXPECT_TRUE(fake.objects().contains("run/ep1.pt"));
  const auto store = libcloud_store({.provider = "AZURE_BLOBS",
                                     .container = "container",
                                     .key_environ = "AZURE_ACCOUNT_NAME",
                                     .secret_environ = "AZURE_ACCOUNT_ACCESS_KEY"});
  EXPECT_THAT(list_names(*store, "run"), ElementsAre("ep1.pt"));
}

TEST(AzurePlaceTest, AConnectionStringIsEnough) {
  testing::FakeAzure fake;
  testing::CleanAzureEnvironment environment;
  const FakeAzureOptions keys;
  const std::string text = "DefaultEndpointsProtocol=http;AccountName=" + keys.account +
                           ";AccountKey=" + keys.key + ";BlobEndpoint=" + fake.endpoint() + "/;";
  write_text(*azure_store({.container = "container", .connection_string = text}), "a", "x");
  environment.set("AZURE_STORAGE_CONNECTION_STRING",
                  ("BlobEndpoint=" + fake.endpoint() +
                   ";SharedAccessSignature=" + fake.sas("rl", std::chrono::hours(1)))
                      .c_str());
  EXPECT_EQ(read_text(*azure_store({.container = "container"}), "a"), "x");
}

TEST(AzurePlaceTest, OptionsGoFirstAndServersAreFound) {
  testing::CleanAzureEnvironment environment;
  environment.set("AZURE_ACCOUNT_NAME", "of-the-environment");
  environment.set("AZURE_ACCOUNT_ACCESS_KEY", "a2V5");
  const auto origin = [](const AzureOptions& options) {
    const azure::Config config = azure::resolve_config(options);
    return config.endpoint.origin() + config.endpoint.path;
  };
  EXPECT_EQ(origin({.container = "c"}), "https://of-the-environment.blob.core.windows.net");
  EXPECT_EQ(origin({.container = "c", .account_name = "mine", .account_key = "a2V5"}),
            "https://mine.blob.core.windows.net");
  EXPECT_EQ(origin({.container = "c", .connection_string = "UseDevelopmentStorage=true"}),
            "http://127.0.0.1:10000/devstoreaccount1");
  EXPECT_EQ(origin({.container = "c",
                    .connection_string =
                        "AccountName=a;AccountKey=a2V5;EndpointSuffix=core.chinacloudapi.cn"}),
            "https://a.blob.core.chinacloudapi.cn");
}

TEST(AzurePlaceTest, WhatCannotBeIsRefusedWithWhatToDo) {
  const testing::CleanAzureEnvironment environment;
  const auto refused = [](const AzureOptions& options) {
    return message_of<UsageError>([&] { azure_store(options); });
  };
  EXPECT_THAT(refused({.container = "c"}), HasSubstr("set AZURE_ACCOUNT_NAME"));
  EXPECT_THAT(refused({}), HasSubstr("name of a container"));
  EXPECT_THAT(refused({.container = "c", .account_name = "a", .account_key = "canary!"}),
              AllOf(HasSubstr("no base64"), Not(HasSubstr("canary"))));
  EXPECT_THAT(refused({.container = "c", .connection_string = "canary"}),
              AllOf(HasSubstr("NAME=VALUE"), Not(HasSubstr("canary"))));
  EXPECT_THAT(refused({.container = "c", .part_bytes = 1}), HasSubstr("part_bytes"));
  EXPECT_THAT(refused({.container = "c", .parallel_requests = 0}), HasSubstr("parallel_requests"));
}

}  // namespace
}  // namespace cairn
