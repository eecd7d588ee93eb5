// Runs whose store cannot be reached for a while: training continues, and a start waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cairn/error.h"
#include "cairn/exit_code.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "io/threads/cancellation.h"
#include "storage/listing.h"
#include "testing/tiny_model.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using ::testing::AllOf;
using testing::CallAt;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LogRecorder;
using ::testing::Not;
using testing::StoreCall;
using testing::tiny_options;
using testing::WatchedStore;

// A clock that advances only if the test says so. If the test lets the clock run free, each pause
// ends at once.
class TestClock final : public PauseClock {
 public:
  std::chrono::steady_clock::time_point now() override {
    const std::scoped_lock lock(mutex_);
    return std::chrono::steady_clock::time_point(now_);
  }
  void wait_for(milliseconds time) override {
    std::unique_lock lock(mutex_);
    const milliseconds end = now_ + time;
    changed_.wait(lock, [&] { return runs_free_ || now_ >= end; });
    now_ = std::max(now_, end);
  }
  void advance(milliseconds time) {
    const std::scoped_lock lock(mutex_);
    now_ += time;
    changed_.notify_all();
  }
  void run_free() {
    const std::scoped_lock lock(mutex_);
    runs_free_ = true;
    changed_.notify_all();
  }
  milliseconds elapsed() {
    const std::scoped_lock lock(mutex_);
    return now_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  milliseconds now_{0};
  bool runs_free_ = false;
};

struct StoreAway : ::testing::Test {
  StoreAway() { set_pause_clock(clock); }
  ~StoreAway() override { set_pause_clock(nullptr); }

  // A store that cannot be reached from `begin` to `end`.
  std::shared_ptr<ObjectStore> away(milliseconds begin, milliseconds end) {
    return std::make_shared<WatchedStore>(
        store, testing::StoreHooks{
                   .before = [this, begin, end](StoreCall /*call*/, const std::string& /*name*/) {
                     const milliseconds now = clock->elapsed();
                     if (now >= begin && now < end) throw StorageError("no connection", 0, true);
                   }});
  }

  TrainerOptions options(std::shared_ptr<ObjectStore> where) {
    TrainerOptions made = tiny_options({});
    made.optimizers = AdamW({.lr = 0.01});
    made.max_duration = "12ba";
    made.run_name = "run";
    made.loggers = {log};
    made.save_folder = "ckpt";
    made.save_filename = "ba{batch}.pt";
    made.save_latest_filename = "latest";
    made.save_interval = "1ba";
    made.save_object_store = std::move(where);
    made.autoresume = true;
    made.seed = 3;
    return made;
  }

  std::size_t count(const std::string& text) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        log->messages,
        [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }

  const std::shared_ptr<TestClock> clock = std::make_shared<TestClock>();
  const std::shared_ptr<ObjectStore> store = memory_store();
  const std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
};

TEST_F(StoreAway, TrainingGoesOnAndTheNewestSaveWaits) {
  TrainerOptions made = options(away(minutes(3), minutes(8)));
  made.callbacks = {
      std::make_shared<CallAt>(Event::kBatchStart,
                               [this](State& /*state*/) { clock->advance(minutes(1)); }),
      std::make_shared<CallAt>(Event::kFitEnd, [this](State& /*state*/) { clock->run_free(); })};
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);

  const auto saved = trainer.saved_checkpoints();
  EXPECT_THAT(saved, Contains("ckpt/ba12.pt"));
  EXPECT_EQ(saved.size(), count("saved ckpt/"));
  EXPECT_GE(count("skipped ckpt/"), 2U);  // Two saves of the batches 3 to 8 can be kept meanwhile.
  EXPECT_EQ(saved.size() + count("skipped ckpt/"), 12U);
  EXPECT_GE(count("trying again in"), 1U);
  for (const std::string& path : saved)
    EXPECT_TRUE(store->stat(path)) << path;
  EXPECT_EQ(list_names(*store, "ckpt").size(), saved.size() + 1);  // Plus the link.
  EXPECT_EQ(store->read_pointer("ckpt/latest")->target, "ckpt/ba12.pt");
}

TEST_F(StoreAway, ASkippedSaveCountsNotAmongThoseToKeep) {
  TrainerOptions made = options(away(minutes(3), minutes(8)));
  made.save_num_remote_checkpoints_to_keep = 2;
  made.callbacks = {
      std::make_shared<CallAt>(Event::kBatchStart,
                               [this](State& /*state*/) { clock->advance(minutes(1)); }),
      std::make_shared<CallAt>(Event::kFitEnd, [this](State& /*state*/) { clock->run_free(); })};
  Trainer trainer(std::move(made));
  trainer.fit();
  const auto saved = trainer.saved_checkpoints();
  EXPECT_GE(saved.size(), 2U);
  EXPECT_LE(saved.size(), 3U);
  EXPECT_EQ(list_names(*store, "ckpt").size(), saved.size() + 1);
}

TEST_F(StoreAway, AStartWaitsUntilItIsBack) {
  clock->run_free();
  TrainerOptions made = options(away(minutes(0), minutes(10)));
  made.max_duration = "1ba";
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_GE(clock->elapsed(), minutes(10));
  EXPECT_THAT(trainer.saved_checkpoints(), Contains("ckpt/ba1.pt"));
  EXPECT_THAT(log->messages,
              Contains(AllOf(HasSubstr("no connection"), HasSubstr("trying again in"))));
}

TEST_F(StoreAway, PatienceEndsWithKStorageAndNamesTheOption) {
  clock->run_free();
  TrainerOptions made = options(away(milliseconds(1), minutes(600)));
  made.callbacks = {std::make_shared<CallAt>(
      Event::kBatchStart, [this](State& /*state*/) { clock->advance(minutes(1)); })};
  Trainer trainer(std::move(made));
  try {
    trainer.fit();
    FAIL() << "the store was away";
  } catch (const StorageError& e) {
    EXPECT_EQ(exit_code_of(e), kStorage);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("save_store_patience"), HasSubstr("failed for 1800 s")));
  }
  EXPECT_GE(clock->elapsed(), minutes(30));
}

TEST_F(StoreAway, WhatDoesNotPassEndsTheRunAtOnce) {
  clock->run_free();
  const auto refusing = std::make_shared<WatchedStore>(
      store, testing::StoreHooks{.before = [](StoreCall /*call*/, const std::string& name) {
        if (name.find("ba2") != std::string::npos) throw StorageError("403", 403);
      }});
  Trainer trainer(options(refusing));
  EXPECT_THROW(trainer.fit(), StorageError);
  EXPECT_LT(clock->elapsed(), minutes(1));
  EXPECT_THAT(log->messages, Not(Contains(HasSubstr("trying again in"))));
}

}  // namespace
}  // namespace cairn
