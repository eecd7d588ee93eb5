// Files named SAVE and STOP in a save folder that is far away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/tiny_model.h"
#include "testing/watched_store.h"
#include "train/engine/stop_request.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using ::testing::EndsWith;
using testing::StoreCall;
using testing::StoreHooks;
using testing::tiny_options;
using testing::WatchedStore;

void put_file(ObjectStore& store, const std::string& name) { store.begin(name)->commit(); }

// A server that answers no request until it is opened.
class Barrier {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

struct FarControlFiles : ::testing::Test {
  // Options of a run whose clock stands still until it is moved.
  StopRequestOptions options(std::shared_ptr<ObjectStore> where) {
    return {.handle_signals = false,
            .folder = "run/checkpoints",
            .store = std::move(where),
            .now = [this] { return now; }};
  }
  static Requests wait_for(StopRequest& request) {
    for (;;) {
      Requests asked = request.poll();
      if (asked.save) return asked;
      std::this_thread::yield();
    }
  }

  std::chrono::steady_clock::time_point now = {};
  const std::shared_ptr<ObjectStore> memory = memory_store();
};

TEST_F(FarControlFiles, AreServedOnceAndRemoved) {
  StopRequest request(options(memory));
  put_file(*memory, "run/checkpoints/SAVE");
  Requests asked = wait_for(request);
  EXPECT_TRUE(asked.save);
  EXPECT_FALSE(asked.stop);
  EXPECT_EQ(asked.reason, "run/checkpoints/SAVE");
  EXPECT_FALSE(memory->stat("run/checkpoints/SAVE"));
  put_file(*memory, "run/checkpoints/STOP");
  now += milliseconds(10'000);
  asked = wait_for(request);
  EXPECT_TRUE(asked.stop);
  EXPECT_FALSE(memory->stat("run/checkpoints/STOP"));
  now += milliseconds(10'000);
  EXPECT_FALSE(request.poll().save);
}

TEST_F(FarControlFiles, AServerThatDoesNotAnswerHoldsUpNoBatch) {
  Barrier barrier;
  const auto store = std::make_shared<WatchedStore>(
      memory, StoreHooks{.before = [&](StoreCall, const auto&) { barrier.pass(); }});
  put_file(*memory, "run/checkpoints/STOP");
  StopRequest request(options(store));
  for (int batch = 0; batch < 1000; ++batch) {
    EXPECT_FALSE(request.poll().save);
    now += milliseconds(10'000);
  }
  EXPECT_LE(store->requests(), 1U);
  barrier.open();
  EXPECT_TRUE(wait_for(request).stop);
}

TEST_F(FarControlFiles, AreAskedForNoMoreOftenThanTheIntervalSays) {
  const auto store = std::make_shared<WatchedStore>(memory);
  {
    StopRequest request(options(store));
    for (unsigned second = 0; second < 100; ++second) {
      const unsigned due = 2 * (second / 10 + 1);
      do {  // Repeat while the previous look, whose requests were counted, is still ending.
        request.poll();
        std::this_thread::yield();
      } while (store->requests() < due);
      now += milliseconds(1'000);
    }
  }
  EXPECT_EQ(store->requests(), 20U);
}

// If a look is due while the previous look waits for its answers, it follows at once.
TEST_F(FarControlFiles, ASlowAnswerPostponesTheNextLookByNoInterval) {
  Barrier barrier;
  const auto store = std::make_shared<WatchedStore>(
      memory, StoreHooks{.before = [&](StoreCall, const auto&) { barrier.pass(); }});
  {
    StopRequest request(options(store));
    request.poll();
    now += milliseconds(10'000);
    request.poll();
    EXPECT_LE(store->requests(), 1U);  // The look waits for the first answer.
    barrier.open();
    while (store->requests() < 4) {  // Each of two looks asks for two names.
      request.poll();
      std::this_thread::yield();
    }
    for (int batch = 0; batch < 1000; ++batch)
      request.poll();
  }
  EXPECT_EQ(store->requests(), 4U);  // There is no third look before the next interval.
}

TEST_F(FarControlFiles, ARemovalWhoseAnswerWasLostIsServedToo) {
  int failures = 1;
  const auto lose = [&](StoreCall call, const std::string& name) {
    if (call == StoreCall::kRemove && failures-- > 0) throw StorageError(name + ": 503", 503, true);
  };
  const auto store = std::make_shared<WatchedStore>(memory, StoreHooks{.after = lose});
  put_file(*memory, "run/checkpoints/STOP");
  StopRequest request(options(store));
  request.poll();
  while (store->calls(StoreCall::kRemove) == 0) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(memory->stat("run/checkpoints/STOP"));
  for (Requests asked; !asked.stop; asked = request.poll()) {
    now += milliseconds(10'000);
  }
}

// If a file that cannot be removed were obeyed, it would be obeyed again and again.
TEST_F(FarControlFiles, WhatCannotBeRemovedIsNotServed) {
  const auto refuse = [](StoreCall call, const std::string& name) {
    if (call == StoreCall::kRemove) throw StorageError(name + ": 403", 403);
  };
  const auto store = std::make_shared<WatchedStore>(memory, StoreHooks{.before = refuse});
  put_file(*memory, "run/checkpoints/STOP");
  StopRequest request(options(store));
  while (store->calls(StoreCall::kRemove) < 2) {
    EXPECT_FALSE(request.poll().save);
    now += milliseconds(10'000);
  }
}

TEST_F(FarControlFiles, StopARunInAStore) {
  TrainerOptions made = tiny_options();
  made.run_name = "run";
  made.max_duration = "1000000ba";
  made.save_folder = "{run_name}/checkpoints";
  made.save_interval = "100000ep";
  made.save_object_store = memory;
  made.handle_signals = true;
  put_file(*memory, "run/checkpoints/STOP");
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kInterrupted);
  trainer.close();
  const std::int64_t batch = trainer.state().timestamp.batch;
  EXPECT_LT(batch, 1'000'000);
  EXPECT_THAT(memory->read_pointer("run/checkpoints/latest-rank0.pt")->target,
              EndsWith("-ba" + std::to_string(batch) + "-rank0.pt"));
  EXPECT_FALSE(memory->stat("run/checkpoints/STOP"));
}

// A STOP file that is removed while a fit() ends is not lost: it stops the next fit(), and only
// that one.
TEST_F(FarControlFiles, StopAProgramOfShortFits) {
  TrainerOptions made = tiny_options();
  made.run_name = "run";
  made.save_folder = "{run_name}/checkpoints";
  made.save_interval = "100000ep";
  made.save_overwrite = true;
  made.save_object_store = memory;
  made.handle_signals = true;
  made.max_duration = "1ba";
  Trainer trainer(std::move(made));
  put_file(*memory, "run/checkpoints/STOP");
  FitResult result = trainer.fit();
  for (int fits = 0; fits < 10'000 && result.reason == FitResult::Reason::kFinished; ++fits) {
    result = trainer.fit({.duration = "1ba"});
  }
  EXPECT_EQ(result.reason, FitResult::Reason::kInterrupted);
  const std::int64_t batch = trainer.state().timestamp.batch;
  EXPECT_EQ(trainer.fit({.duration = "1ba"}).reason, FitResult::Reason::kFinished);
  EXPECT_EQ(trainer.state().timestamp.batch, batch + 1);
}

TEST_F(FarControlFiles, WhatIsFoundWhileNobodyAsksIsToldTheNextTime) {
  StopRequest request(options(memory));
  put_file(*memory, "run/checkpoints/STOP");
  EXPECT_FALSE(request.poll_before_training().stop);  // Begins to look.
  request.stop_handling();
  while (memory->stat("run/checkpoints/STOP")) {
    std::this_thread::yield();
  }
  request.resume_handling();
  Requests asked;
  while (!asked.stop) {
    asked = request.poll_before_training();
  }
  EXPECT_EQ(asked.reason, "run/checkpoints/STOP");
  EXPECT_FALSE(request.poll_before_training().stop);
}

}  // namespace
}  // namespace cairn
