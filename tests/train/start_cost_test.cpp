// Counts the requests of a start in a far store, for a run with ten thousand checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "storage/publish/publish.h"
#include "testing/aged_run.h"
#include "testing/message_of.h"
#include "testing/tiny_model.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

using testing::aged_run_file;
using testing::aged_run_name;
using testing::aged_run_options;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using testing::StoreCall;
using testing::WatchedStore;

// The older checkpoints are empty files: a start that opens them fails.
struct StartCostTest : ::testing::Test {
  static constexpr std::int64_t kBatches = 10'000;
  static constexpr const char* kLatest = "run/latest-rank0.pt";

  static std::string path_of(std::int64_t batch) { return "run/" + aged_run_name(batch); }
  static void put(ObjectStore& store, const std::string& name, const std::string& text) {
    write_until_seen(
        store, {.name = name, .fill = [&](ObjectWrite& out) { out.write(as_bytes(text)); }}, {});
  }

  StartCostTest() {
    for (std::int64_t batch = 1; batch < kBatches; ++batch) {
      put(*store, path_of(batch), "never looked into");
    }
    point_at_newest(aged_run_file(kBatches));
  }

  void point_at_newest(const std::string& newest) const {
    put(*store, path_of(kBatches), newest);
    store->move_pointer(kLatest, path_of(kBatches));
  }

  TrainerOptions options(const std::string& duration) {
    TrainerOptions made = aged_run_options(duration);
    made.loggers = {log};
    made.save_object_store = watched;
    return made;
  }

  std::uint64_t beside_pages() const {
    return watched->requests() - watched->calls(StoreCall::kList);
  }

  // Starts the run. Returns the batch from which it resumes, and the number of requests that are
  // not listings.
  std::pair<std::int64_t, std::uint64_t> start() {
    watched->reset();
    Trainer trainer(options("10000ba"));
    EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kAlreadyFinished);
    return {trainer.state().timestamp.batch, beside_pages()};
  }

  const std::shared_ptr<ObjectStore> store = memory_store();
  const std::shared_ptr<WatchedStore> watched = std::make_shared<WatchedStore>(store);
  const std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
};

TEST_F(StartCostTest, WithAGoodPointerItIsSixRequestsBesidePages) {
  const auto [batch, requests] = start();
  EXPECT_EQ(batch, kBatches);
  EXPECT_LE(requests, 6U);
}

// Checkpoints that the run saved before its folder was moved are also looked up in the listing.
TEST_F(StartCostTest, OfARunThatWasMovedEveryCheckpointIsKnownFromTheListing) {
  point_at_newest(aged_run_file(kBatches, "old/run"));
  watched->reset();
  Trainer trainer(options("10001ba"));
  EXPECT_EQ(trainer.state().timestamp.batch, kBatches);
  EXPECT_LE(beside_pages(), 6U);
  trainer.fit();
  EXPECT_EQ(trainer.saved_checkpoints().size(), 10'001U);
  EXPECT_LE(beside_pages(), 20U);  // Including a save, and looks for STOP and SAVE.
}

TEST_F(StartCostTest, WithABadPointerItIsTwentyRequestsBesidePages) {
  const auto costs = [&](const std::string& what) {
    const auto [batch, requests] = start();
    EXPECT_EQ(batch, kBatches) << what;
    EXPECT_LE(requests, 20U) << what;
  };
  store->remove(kLatest);
  costs("missing");
  store->move_pointer(kLatest, "run/ep9-ba77777-rank0.pt");
  costs("leads nowhere");
  store->move_pointer(kLatest, path_of(5));
  costs("leads to what is no checkpoint");
  const std::string newest = aged_run_file(kBatches);
  put(*store, path_of(kBatches + 1), newest.substr(0, newest.size() / 2));
  store->move_pointer(kLatest, path_of(kBatches + 1));
  costs("leads to half a checkpoint");
}

// The names claim up to ten thousand batches more than the files hold.
struct PromisingNamesTest : StartCostTest {
  static constexpr std::int64_t kHeld = 45;

  PromisingNamesTest() {
    for (std::int64_t batch = kHeld + 1; batch <= kBatches; ++batch) {
      put(*store, path_of(batch), held);
    }
  }

  const std::string held = aged_run_file(kHeld);
};

TEST_F(PromisingNamesTest, WithAGoodPointerTheRunGoesOnAndLooksIntoABoundedNumber) {
  watched->reset();
  Trainer trainer(options("47ba"));
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.batch, 47);
  EXPECT_LE(beside_pages(), 100U);
  EXPECT_LE(watched->bytes_read(), 100 * held.size());
  EXPECT_THAT(log->messages,
              Contains(HasSubstr("under names that this run will write after batch 45")));
  trainer.close();
  // The checkpoints are this run's own, whether or not they were opened.
  const auto found = find_latest("run", {.trust_latest = true, .store = store});
  EXPECT_EQ(found->path, path_of(47));
  EXPECT_EQ(found->timestamp.batch, 47);
}

// A file of another run is among those that were not opened before training.
TEST_F(PromisingNamesTest, WhatWasNotLookedIntoIsNotWrittenOverUnlessItIsOfTheRun) {
  Trainer trainer(options("80ba"));
  const Timestamp at_46 = {.epoch = 9, .batch = 46};
  save(load(path_of(kBatches), {.store = store}), path_of(46),
       {.info = {.kind = "full", .run_name = "other", .timestamp = at_46}, .store = store});
  const std::string before = store->stat(path_of(46))->version;
  EXPECT_THAT(message_of<AlreadyExistsError>([&] { trainer.fit(); }), HasSubstr("\"other\""));
  EXPECT_EQ(trainer.state().timestamp.batch, 46);
  EXPECT_EQ(store->stat(path_of(46))->version, before);
}

TEST_F(PromisingNamesTest, WithoutAPointerTheStartIsRefusedAfterABoundedNumber) {
  store->remove(kLatest);
  watched->reset();
  const std::string refused = message_of<UsageError>([&] { Trainer{options("47ba")}; });
  EXPECT_THAT(refused, HasSubstr("names promise more than they hold"));
  EXPECT_THAT(refused, HasSubstr("holds epoch 9, batch 45"));
  EXPECT_LE(beside_pages(), 60U);
  EXPECT_LE(watched->bytes_read(), 100 * held.size());
  // Does what the message advises. Then the remaining checkpoint is found.
  for (std::int64_t batch = kHeld + 1; batch <= kBatches; ++batch) {
    store->remove(path_of(batch));
  }
  put(*store, path_of(kHeld), held);
  EXPECT_EQ(Trainer(options("47ba")).state().timestamp.batch, kHeld);
}

TEST_F(PromisingNamesTest, OfFilesThatHoldNothingABoundedNumberIsOpened) {
  store->remove(kLatest);
  for (std::int64_t batch = kHeld + 1; batch <= kBatches; ++batch) {
    put(*store, path_of(batch), "");
  }
  put(*store, path_of(kHeld), held);
  watched->reset();
  const std::string refused = message_of<UsageError>([&] { Trainer{options("47ba")}; });
  EXPECT_THAT(refused, HasSubstr("none of them can be used"));
  EXPECT_LE(beside_pages(), 100U);
  for (std::int64_t batch = kHeld + 1; batch <= kBatches; ++batch) {
    store->remove(path_of(batch));
  }
  EXPECT_EQ(Trainer(options("47ba")).state().timestamp.batch, kHeld);
}

// The message advises a separate folder. In a separate folder, the run begins.
TEST_F(PromisingNamesTest, AmongCheckpointsOfAnotherRunABoundedNumberIsOpened) {
  watched->reset();
  TrainerOptions made = options("2ba");
  made.run_name = "mine";
  const std::string refused = message_of<UsageError>([&] { Trainer{made}; });
  EXPECT_THAT(refused, HasSubstr("64 checkpoints were opened that are of other runs"));
  EXPECT_LE(beside_pages(), 100U);
  made.save_folder = "run/{run_name}";
  Trainer(made).fit();
  EXPECT_TRUE(store->stat("run/mine/ep0-ba2-rank0.pt"));
}

}  // namespace
}  // namespace cairn
