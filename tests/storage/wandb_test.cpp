#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "s3_fixture.h"
#include "storage/place.h"
#include "storage/wandb/store.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"
#include "trackers_fixture.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;

struct WandbTest : ::testing::Test {
  explicit WandbTest(testing::FakeTrackersOptions options = {}) : served(std::move(options)) {
    served.environment.set("WANDB_API_KEY", served.keys.token);
    served.environment.set("WANDB_BASE_URL", served.fake.url());
    served.environment.set("NETRC", "/nonexistent/netrc");
  }
  std::shared_ptr<ObjectStore> store() {
    RemoteSettings settings;
    settings.client = shared_http_client();
    settings.retries.clock = served.clock;
    return wandb::make_wandb_store({.entity = "me"}, settings);
  }
  void put(const std::string& artifact, const std::string& file, const std::string& bytes) {
    served.fake.put_file("wandb/me/proj/" + artifact + "/" + file, bytes);
  }

  TrackersServed served;
};

TEST_F(WandbTest, AnArtifactIsItsOneFile) {
  put("checkpoints.ep1.pt:latest", "ep1.pt", "bytes");
  put("checkpoints.ep1.pt:v0", "ep1.pt", "older");
  const auto store = this->store();
  // As Composer's logger names it.
  EXPECT_EQ(read_text(*store, "proj/checkpoints/ep1.pt"), "bytes");
  EXPECT_EQ(read_text(*store, "proj/checkpoints/ep1.pt:latest"), "bytes");
  EXPECT_EQ(read_text(*store, "proj/checkpoints.ep1.pt:v0"), "older");
  const auto info = store->stat("proj/checkpoints/ep1.pt");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->size, 5U);
  EXPECT_NE(info->version, store->stat("proj/checkpoints/ep1.pt:v0")->version);
  EXPECT_FALSE(store->stat("proj/none").has_value());
  EXPECT_FALSE(store->stat("other/none").has_value());
  EXPECT_THAT(message_of<NotFoundError>([&] { store->open("proj/none:v3"); }),
              HasSubstr("wandb://me/proj/none:v3"));
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST_F(WandbTest, OfSeveralFilesOneIsToBeNamed) {
  put("ck:best", "a/one.pt", "one");
  put("ck:best", "two.pt", "two");
  EXPECT_EQ(read_text(*store(), "proj/ck:best/a/one.pt"), "one");
  EXPECT_THAT(message_of<UsageError>([&] { store()->open("proj/ck:best"); }),
              AllOf(HasSubstr("2 files"), HasSubstr("wandb://me/proj/ck:best/a/one.pt")));
  EXPECT_THROW(store()->open("proj/ck:best/none"), NotFoundError);
}

TEST_F(WandbTest, AUrlThatEndsIsFetchedAgainForTheSameVersion) {
  put("ck:latest", "ck.pt", std::string(1 << 20, 'a'));
  const auto source = store()->open("proj/ck");
  served.fake.end_urls();
  EXPECT_EQ(as_text(source->view(0, 3).view), "aaa");
  put("ck:latest", "ck.pt", std::string(1 << 20, 'b'));
  EXPECT_THAT(message_of<StorageError>([&] { source->view(0, 3); }), HasSubstr("was replaced"));
  served.fake.end_urls();
  EXPECT_THAT(message_of<StorageError>([&] { source->view(0, 3); }), Not(HasSubstr("canary")));
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST_F(WandbTest, PointersOfComposersLoggerAreFollowed) {
  put("run.latest-rank0.pt.symlink:latest", "latest-rank0.pt.symlink", "run/ep1.pt\n");
  put("run.ep1.pt:latest", "ep1.pt", "bytes");
  EXPECT_EQ(read_text(*store(), "proj/run/latest-rank0.pt"), "bytes");
  const auto pointer = store()->read_pointer("proj/run/latest-rank0.pt");
  ASSERT_TRUE(pointer.has_value());
  EXPECT_EQ(pointer->target, "proj/run/ep1.pt");
}

TEST_F(WandbTest, CheckpointsAreLoadedByTheirUris) {
  const testing::TempFolder folder;
  save(testing::sample_checkpoint(3), folder / "ep1.pt", {.info = testing::sample_info(3)});
  put("ep1.pt:v7", "ep1.pt", testing::read_file(folder / "ep1.pt"));
  EXPECT_EQ(testing::batch_of_sample(load("wandb://me/proj/ep1.pt:v7")), 3);
  EXPECT_TRUE(verify("wandb://me/proj/ep1.pt:v7", Verify::kFull).ok());
  EXPECT_THROW(load("wandb://me/proj/ep1.pt"), NotFoundError);
}

TEST_F(WandbTest, WhatNoDocumentDescribesIsRefused) {
  const auto store = this->store();
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { store->begin("proj/a"); }, [&] { store->list("proj"); },
           [&] { store->remove("proj/a"); }, [&] { store->remove_folder("proj/a"); },
           [&] { store->rename("proj/a", "proj/b"); }, [&] { store->prepare("proj"); },
           [&] { store->move_pointer("proj/a", "proj/b"); }}) {
    EXPECT_THAT(message_of<UnsupportedError>(call), HasSubstr("W&B documents no requests"));
  }
  EXPECT_THAT(writing_problem("wandb://me/proj"),
              AllOf(HasSubstr("wandb://"), HasSubstr("not written")));
  EXPECT_EQ(place_problem("wandb://me/proj"), "");
  EXPECT_THAT(served.fake.log(), IsEmpty());
}

TEST_F(WandbTest, TheKeyIsFoundAndNeverTold) {
  put("ck:latest", "ck.pt", "bytes");
  const testing::TempFolder folder;
  testing::write_file(folder / "netrc",
                      "machine other login user password canary-other\n"
                      "machine " +
                          served.fake.url().substr(7) + "\n  login user\n  password " +
                          served.keys.token);
  served.environment.set("WANDB_API_KEY", nullptr);
  EXPECT_THAT(message_of<UsageError>([&] { store()->stat("proj/ck"); }),
              HasSubstr("set WANDB_API_KEY"));
  served.environment.set("NETRC", folder / "netrc");
  EXPECT_EQ(read_text(*store(), "proj/ck"), "bytes");
  served.environment.set("WANDB_API_KEY", "canary-wrong");
  EXPECT_THAT(message_of<StorageError>([&] { store()->stat("proj/ck"); }),
              AllOf(HasSubstr("401"), HasSubstr("check WANDB_API_KEY"), Not(HasSubstr("canary"))));
  served.environment.set("WANDB_BASE_URL", "http://wandb.example");
  EXPECT_THAT(message_of<UsageError>([&] { store()->stat("proj/ck"); }), HasSubstr("https://"));
}

TEST_F(WandbTest, ErrorsOfTheQueryAreTold) {
  served.fake.answer_next("POST /graphql",
                          {.body = R"({"errors": [{"message": "permission denied"}]})"});
  EXPECT_THAT(message_of<StorageError>([&] { store()->stat("proj/ck"); }),
              HasSubstr("permission denied"));
  const std::string key = served.keys.token;
  served.fake.answer_next(
      "POST /graphql",
      {.body = R"({"errors": [{"message": "no user has the key )" + key + "\"}]}"});
  EXPECT_THAT(message_of<StorageError>([&] { store()->stat("proj/ck"); }),
              AllOf(HasSubstr("no user has the key ***"), Not(HasSubstr("canary"))));
  EXPECT_THAT(message_of<UsageError>([&] { store()->stat("proj"); }),
              HasSubstr("names no artifact"));
}

struct FaultyWandbTest : WandbTest {
  FaultyWandbTest() : WandbTest({.page = 1, .fault_rate = 0.2}) {}
};

TEST_F(FaultyWandbTest, PassingFaultsAreTriedAgain) {
  for (int i = 0; i < 10; ++i)
    put("ck" + std::to_string(i) + ":latest", "a", "bytes " + std::to_string(i));
  put("ck0:latest", "b", "other");
  for (int i = 1; i < 10; ++i)
    EXPECT_EQ(read_text(*store(), "proj/ck" + std::to_string(i)), "bytes " + std::to_string(i));
  EXPECT_EQ(read_text(*store(), "proj/ck0:latest/b"), "other") << "on the second page";
  EXPECT_GT(served.fake.faults(), 0U);
}

}  // namespace
}  // namespace cairn
