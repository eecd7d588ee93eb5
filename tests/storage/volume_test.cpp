#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "io/threads/cancellation.h"
#include "s3_fixture.h"
#include "storage/listing.h"
#include "testing/file_bytes.h"
#include "testing/http_server.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"
#include "trackers_fixture.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HttpReply;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;
using testing::TempFolder;

const std::string kVolume = "Volumes/main/runs/ckpt/";

TEST(VolumeTest, RequestsAreAsTheDocumentsHaveThem) {
  TrackersServed served;
  const auto store = served.store();
  const std::string name = kVolume + "run 1/ep1.pt";
  write_text(*store, name, "bytes");
  EXPECT_THAT(served.fake.log(),
              ElementsAre("HEAD /api/2.0/fs/directories/Volumes/main/runs/ckpt/run%201/ep1.pt",
                          "PUT /api/2.0/fs/directories/Volumes/main/runs/ckpt/run%201",
                          "PUT /api/2.0/fs/files/Volumes/main/runs/ckpt/run%201/ep1.pt"
                          "?overwrite=true",
                          "HEAD /api/2.0/fs/files/Volumes/main/runs/ckpt/run%201/ep1.pt"));
  EXPECT_EQ(served.fake.files()[name], "bytes");
  EXPECT_EQ(read_text(*store, name), "bytes");
  EXPECT_EQ(store->describe(name), "dbfs:/" + name);
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

// Uploads from a temporary file in $TMPDIR, and downloads in ranges of 8 MiB.
TEST(VolumeTest, ALargeFileGoesWithOneRequestAndComesInRanges) {
  TrackersServed served;
  const auto store = served.store();
  std::string text(20 << 20, 'x');
  for (std::size_t i = 0; i < text.size(); i += 1000)
    text[i] = static_cast<char>('a' + i / 1000 % 26);
  write_text(*store, kVolume + "big.pt", text);
  EXPECT_TRUE(served.fake.files()[kVolume + "big.pt"] == text);
  EXPECT_EQ(served.fake.count("PUT /api/2.0/fs/files/"), 1U);
  EXPECT_TRUE(read_text(*store, kVolume + "big.pt") == text);
  EXPECT_EQ(served.fake.count("GET /api/2.0/fs/files/"), 4U);
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST(VolumeTest, WhatIsTooLargeForOneRequestIsRefusedBeforeItIsSent) {
  TrackersServed served;
  const auto store = served.store();
  EXPECT_THAT(message_of<UsageError>([&] {
                store->begin(kVolume + "a", {.expected_bytes = (std::uint64_t{5} << 30) + 1});
              }),
              AllOf(HasSubstr("dbfs:/" + kVolume + "a"), HasSubstr("5368709120")));
  EXPECT_EQ(served.fake.count("PUT"), 0U);
}

TEST(VolumeTest, AReplacedFileIsNotReadOn) {
  TrackersServed served;
  const auto store = served.store();
  served.fake.put_file(kVolume + "a", std::string(1 << 20, 'a'));
  const auto source = store->open(kVolume + "a");
  const HttpReply replaced = {.status = 412};
  served.fake.answer_next("GET /api/2.0/fs/files", replaced);
  EXPECT_THAT(message_of<StorageError>([&] { source->view(0, 10); }), HasSubstr("was replaced"));
}

TEST(VolumeTest, AnAnswerThatIsLostIsNoFailureAndNoConflict) {
  TrackersServed served;
  const auto store = served.store();
  served.fake.answer_next("PUT /api/2.0/fs/files", {.sends_at_most = 0}, 1,
                          testing::FakeTrackers::When::kAfter);
  write_text(*store, kVolume + "a", "mine", WriteCondition::absent());
  EXPECT_EQ(served.fake.files()[kVolume + "a"], "mine");
  EXPECT_THROW(write_text(*store, kVolume + "a", "mine", WriteCondition::absent()),
               AlreadyExistsError);
}

TEST(VolumeTest, AFileThatComesInBetweenIsNotReplaced) {
  TrackersServed served;
  const auto store = served.store();
  const auto object = store->begin(kVolume + "a", {.condition = WriteCondition::absent()});
  object->write(as_bytes("ours"));
  // After the writer's last check, and before its PUT.
  served.fake.answer_next("HEAD /api/2.0/fs/files", {.status = 404});
  served.fake.put_file(kVolume + "a", "theirs");
  EXPECT_THROW(object->commit(), AlreadyExistsError);
  EXPECT_EQ(served.fake.files()[kVolume + "a"], "theirs");
}

TEST(VolumeTest, AFileThatIsNotAllThereIsToldBehindTheWrite) {
  TrackersServed served;
  const auto store = served.store();
  served.fake.answer_next("HEAD /api/2.0/fs/files", {.body = "1234"});
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store, kVolume + "a", "12345"); }),
              HasSubstr("4 bytes instead of 5"));
}

// The index's name sorts after the names of its shards, and is not hidden.
TEST(VolumeTest, AFolderIsRemovedFromWhatItIsKnownBy) {
  TrackersServed served;
  const auto store = served.store();
  const std::string folder = kVolume + "ep1/";
  for (const char* name : {"model-00001-of-00001.safetensors", "model.safetensors.index.json"}) {
    write_text(*store, folder + name, "x");
  }
  served.fake.answer_next("DELETE /api/2.0/fs/files/" + folder + "model.safetensors.index.json",
                          {.status = 403});
  EXPECT_THROW(store->remove_folder(folder), Error);
  EXPECT_TRUE(store->stat(folder + "model-00001-of-00001.safetensors"));
  EXPECT_TRUE(store->remove_folder(folder));
  EXPECT_THAT(served.fake.files(), IsEmpty());
}

TEST(VolumeTest, LongListsComeInPages) {
  TrackersServed served({.page = 3});
  const auto store = served.store();
  for (int i = 0; i < 10; ++i)
    served.fake.put_file(kVolume + "run/ep" + std::to_string(i) + ".pt", "x");
  EXPECT_EQ(list_names(*store, kVolume + "run").size(), 10U);
  EXPECT_EQ(served.fake.count("GET /api/2.0/fs/directories"), 4U);
  served.fake.answer_next("GET /api/2.0/fs/directories/Volumes/main/runs/ckpt/run?page_token",
                          {.body = R"({"next_page_token": "page-3"})"}, 100);
  EXPECT_THAT(message_of<StorageError>([&] { list_names(*store, kVolume + "run"); }),
              HasSubstr("the same page again"));
}

TEST(VolumeTest, AServicePrincipalGetsTokensAndNewOnes) {
  TrackersServed served({.client_id = "principal", .client_secret = "canary-secret"});
  const auto store = served.store();
  write_text(*store, kVolume + "a", "one");
  write_text(*store, kVolume + "b", "two");
  EXPECT_EQ(served.fake.count("POST /oidc/v1/token"), 1U);
  served.fake.end_tokens();
  EXPECT_EQ(read_text(*store, kVolume + "a"), "one");
  EXPECT_EQ(served.fake.count("POST /oidc/v1/token"), 2U);
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST(VolumeTest, NoErrorHoldsAToken) {
  TrackersServed served;
  DbfsOptions wrong = served.options();
  wrong.token = "canary-wrong-token";
  const std::string text =
      message_of<StorageError>([&] { served.store(wrong)->stat(kVolume + "a"); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("401"), HasSubstr("DATABRICKS_TOKEN"), Not(HasSubstr("canary"))));
  served.fake.answer_next(
      "GET /api/2.0/fs/directories",
      {.status = 403,
       .body =
           R"({"error_code": "PERMISSION_DENIED", "message": "no: canary-token-of-the-fake"})"});
  EXPECT_THAT(
      message_of<StorageError>([&] { served.store()->list(kVolume + "a"); }),
      AllOf(HasSubstr("403 PERMISSION_DENIED"), HasSubstr("no: ***"), Not(HasSubstr("canary"))));
  TrackersServed principal({.client_id = "principal", .client_secret = "canary-secret"});
  DbfsOptions other = principal.options();
  other.client_secret = "canary-other";
  EXPECT_THAT(
      message_of<StorageError>([&] { principal.store(other)->stat(kVolume + "a"); }),
      AllOf(HasSubstr("401 invalid_client"), HasSubstr("CLIENT_SECRET"), Not(HasSubstr("canary"))));
  const std::string cut = std::string(295, '.') + "canary-secret";
  principal.fake.answer_next("POST /oidc/v1/token",
                             {.status = 400, .body = R"({"error": ")" + cut + "\"}"});
  EXPECT_THAT(message_of<StorageError>([&] { principal.store()->stat(kVolume + "a"); }),
              AllOf(HasSubstr("...***"), Not(HasSubstr("canary"))));
}

TEST(VolumeTest, TheWorkspaceIsFoundAsDatabricksToolsFindIt) {
  TrackersServed served;
  const TempFolder folder;
  testing::write_file(folder / "cfg",
                      "; mine\n[DEFAULT]\nhost = " + served.fake.url() +
                          "/\ntoken = canary-nothing\n\n[work]\nhost = " + served.fake.url() +
                          "\ntoken = " + served.keys.token + "\n");
  served.fake.put_file(kVolume + "a", "bytes");
  served.environment.set("DATABRICKS_CONFIG_FILE", folder / "cfg");
  // The token of the profile DEFAULT is a wrong one.
  EXPECT_THROW(served.store(DbfsOptions{})->stat(kVolume + "a"), StorageError);
  EXPECT_EQ(read_text(*served.store({.profile = "work"}), kVolume + "a"), "bytes");
  EXPECT_THAT(
      message_of<UsageError>([&] { served.store({.profile = "none"})->stat(kVolume + "a"); }),
      HasSubstr("no profile \"none\""));
  served.environment.set("DATABRICKS_CONFIG_PROFILE", "work");
  EXPECT_EQ(read_text(*object_store_of("dbfs:/" + kVolume + "a"), "dbfs:/" + kVolume + "a"),
            "bytes");
  // The environment takes precedence over the file.
  served.environment.set("DATABRICKS_HOST", served.fake.url());
  served.environment.set("DATABRICKS_TOKEN", "canary-other");
  EXPECT_THROW(served.store(DbfsOptions{})->stat(kVolume + "a"), StorageError);
}

TEST(VolumeTest, WhatCannotBeIsRefusedWithWhatToDo) {
  TrackersServed served;
  const auto refused = [&](const DbfsOptions& options, const std::string& name = kVolume + "a") {
    return message_of([&] { served.store(options)->stat(name); });
  };
  EXPECT_THAT(refused({}), HasSubstr("set DATABRICKS_HOST"));
  EXPECT_THAT(refused({.host = "https://x.example"}), HasSubstr("set DATABRICKS_TOKEN"));
  EXPECT_THAT(refused({.host = "http://x.example", .token = "canary"}),
              AllOf(HasSubstr("https://"), Not(HasSubstr("canary"))));
  EXPECT_THAT(refused({.host = "https://me:canary@x.example", .token = "t"}),
              AllOf(HasSubstr("DATABRICKS_HOST"), Not(HasSubstr("canary"))));
  DbfsOptions both = served.options();
  both.client_id = "principal";
  EXPECT_THAT(refused(both), HasSubstr("DATABRICKS_AUTH_TYPE"));
  served.environment.set("DATABRICKS_AUTH_TYPE", "azure-cli");
  EXPECT_THAT(refused(served.options()), HasSubstr("pat and oauth-m2m"));
  served.environment.set("DATABRICKS_AUTH_TYPE", nullptr);
  for (const char* name : {"root/a", "Volumes/catalog/schema", "", "Volumes"}) {
    EXPECT_THAT(refused(served.options(), name), HasSubstr("neither in a volume")) << name;
  }
  EXPECT_THROW(object_store_of("dbfs://host/Volumes/a/b/c/d"), UsageError);
}

TEST(VolumeTest, CheckpointsAndTheirPointerAreFoundByTheirUris) {
  TrackersServed served;
  served.environment.set("DATABRICKS_HOST", served.fake.url());
  served.environment.set("DATABRICKS_TOKEN", served.keys.token);
  const std::string folder = "dbfs:/" + kVolume + "run";
  for (const std::int64_t batch : {1, 2}) {
    save(testing::sample_checkpoint(batch),
         folder + "/ep0-ba" + std::to_string(batch) + "-rank0.pt",
         {.info = testing::sample_info(batch)});
  }
  const auto store = object_store_of(folder);
  store->move_pointer(folder + "/latest-rank0.pt", folder + "/ep0-ba1-rank0.pt");
  // The path that Composer writes.
  EXPECT_EQ(served.fake.files()[kVolume + "run/latest-rank0.pt.symlink"],
            kVolume + "run/ep0-ba1-rank0.pt");
  EXPECT_EQ(testing::batch_of_sample(load(folder + "/latest-rank0.pt")), 1);
  const auto found = find_latest(folder);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, folder + "/ep0-ba2-rank0.pt");
  EXPECT_TRUE(verify(found->path, Verify::kFull).ok());
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST(VolumeTest, PagesInACircleAreAnError) {
  TrackersServed served({.page = 3});
  const auto store = served.store();
  for (int i = 0; i < 10; ++i)
    served.fake.put_file(kVolume + "run/ep" + std::to_string(i) + ".pt", "x");
  const std::string folder = "GET /api/2.0/fs/directories/Volumes/main/runs/ckpt/run?page_token=";
  served.fake.answer_next(folder + "page-3", {.body = R"({"next_page_token": "page-6"})"}, 20);
  served.fake.answer_next(folder + "page-6", {.body = R"({"next_page_token": "page-3"})"}, 20);
  EXPECT_THAT(message_of<StorageError>([&] { store->remove_folder(kVolume + "run"); }),
              HasSubstr("the same page again"));
  EXPECT_EQ(served.fake.files().size(), 10U);
}

TEST(VolumeTest, NamesThatLeadElsewhereAreNotFollowed) {
  TrackersServed served;
  served.fake.put_file(kVolume + "run/a", "x");
  served.fake.put_file(kVolume + "b", "x");
  served.fake.answer_next("GET /api/2.0/fs/directories/Volumes/main/runs/ckpt/run",
                          {.body = R"({"contents": [{"name": "", "is_directory": true},
                              {"name": "..", "is_directory": true}, {"name": "."},
                              {"name": "../b", "is_directory": false},
                              {"name": "a", "last_modified": 1000000000000000000}]})"},
                          2);
  const ListPage listed = served.store()->list(kVolume + "run", "");
  ASSERT_EQ(listed.names.size(), 1U);
  EXPECT_EQ(listed.names[0].name, "a");
  const auto modified = listed.names[0].info->modified.time_since_epoch();
  EXPECT_GT(std::chrono::duration_cast<std::chrono::hours>(modified).count(), 24 * 365 * 230);
  EXPECT_TRUE(served.store()->remove_folder(kVolume + "run"));
  EXPECT_THAT(served.fake.files(), ElementsAre(::testing::Pair(kVolume + "b", "x")));
}

TEST(VolumeTest, ATokenOfWhateverLifeIsUsedMoreThanOnce) {
  for (const char* life : {"", R"(, "expires_in": 1000000000000000000)", R"(, "expires_in": 36.5)",
                           R"(, "expires_in": 100)"}) {
    TrackersServed served({.client_id = "principal", .client_secret = "canary-secret"});
    const std::string token = R"({"access_token": "issued-0")" + std::string(life) + "}";
    served.fake.answer_next("POST /oidc/v1/token", {.body = token}, 2);
    const auto store = served.store();
    for (int i = 0; i < 3; ++i)
      EXPECT_FALSE(store->stat(kVolume + "a").has_value());
    EXPECT_EQ(served.fake.count("POST /oidc/v1/token"), 1U) << life;
  }
}

TEST(VolumeTest, WaitingForATokenCanBeCancelled) {
  std::promise<void> arrived;
  std::promise<void> end;
  std::atomic<bool> has_arrived = false;
  const std::shared_future<void> ended = end.get_future().share();
  testing::HttpServer server([&](const testing::ReceivedRequest&) {
    if (!has_arrived.exchange(true)) arrived.set_value();
    ended.wait();
    return HttpReply();
  });
  const testing::CleanTrackersEnvironment environment;
  const auto store =
      dbfs::make_dbfs_store({.host = server.url(), .client_id = "me", .client_secret = "canary"},
                            {.retries = {.clock = std::make_shared<testing::FakeNetClock>()}});
  Cancellation cancellation("the time is over");
  auto said = std::async(std::launch::async, [&] {
    const CancelScope scope(&cancellation);
    return message_of<std::exception>([&] { store->stat(kVolume + "a"); });
  });
  arrived.get_future().wait();
  cancellation.cancel();
  EXPECT_THAT(said.get(), HasSubstr("the time is over"));
  end.set_value();
}

}  // namespace
}  // namespace cairn
