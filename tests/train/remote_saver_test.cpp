// Runs that save in a store that is far away: no local copy, two jobs, faults, resuming.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "io/bytes/source_part.h"
#include "storage/listing.h"
#include "testing/message_of.h"
#include "testing/plain_store.h"
#include "testing/resumable_state.h"
#include "testing/tiny_model.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using testing::resumable_state;
using testing::StoreCall;
using testing::StoreHooks;
using testing::tiny_options;
using testing::WatchedStore;

struct RemoteSaver : ::testing::Test {
  TrainerOptions options(const std::string& duration, std::shared_ptr<ObjectStore> where) {
    TrainerOptions made = tiny_options({.dropout = 0.3});
    made.optimizers = AdamW({.lr = 0.01});
    made.max_duration = duration;
    made.run_name = "run";
    made.loggers = {log};
    made.save_folder = "{run_name}/checkpoints";
    made.save_interval = "1ba";
    made.save_num_checkpoints_to_keep = 0;
    made.save_object_store = std::move(where);
    made.autoresume = true;
    made.seed = 3;
    return made;
  }
  // The last state of a run that is never stopped.
  static Value straight(TrainerOptions made) {
    const auto elsewhere = memory_store();
    made.save_object_store = elsewhere;
    Trainer trainer(std::move(made));
    trainer.fit();
    trainer.close();
    return resumable_state(load("run/checkpoints/latest-rank0.pt", {.store = elsewhere}));
  }
  std::vector<std::string> names() { return list_names(*store, "run/checkpoints"); }

  const std::shared_ptr<ObjectStore> store = memory_store();
  const std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
};

TEST_F(RemoteSaver, KeepsAllThereAndNothingHere) {
  Trainer trainer(options("3ba", store));
  trainer.fit();
  EXPECT_THAT(trainer.saved_checkpoints(),
              ElementsAre("run/checkpoints/ep0-ba1-rank0.pt", "run/checkpoints/ep0-ba2-rank0.pt",
                          "run/checkpoints/ep0-ba3-rank0.pt"));
  EXPECT_THAT(names(), ElementsAre("ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt", "ep0-ba3-rank0.pt",
                                   "latest-rank0.pt"));
  EXPECT_FALSE(local_store()->stat("run"));
}

TEST_F(RemoteSaver, RetentionThereIsAnOptionOfItsOwn) {
  TrainerOptions made = options("4ba", store);
  // Composer's option for local copies. It removes nothing in the store.
  made.save_num_checkpoints_to_keep = 1;
  Trainer(made).fit();
  EXPECT_EQ(names().size(), 5U);
  made.max_duration = "5ba";
  made.save_num_remote_checkpoints_to_keep = 2;  // The previous run's checkpoints count.
  Trainer(made).fit();
  EXPECT_THAT(names(), ElementsAre("ep0-ba4-rank0.pt", "ep0-ba5-rank0.pt", "latest-rank0.pt"));
  EXPECT_THROW(CheckpointSaver({.num_remote_checkpoints_to_keep = 0}), UsageError);
  made.save_num_remote_checkpoints_to_keep = 0;
  EXPECT_THROW(Trainer{made}, UsageError);
}

TEST_F(RemoteSaver, ResumesBitIdenticallyOnAMachineWithoutAnyFile) {
  for (const char* duration : {"2ba", "5ba", "9ba"}) {
    Trainer(options(duration, store)).fit();
  }
  EXPECT_EQ(resumable_state(load("run/checkpoints/latest-rank0.pt", {.store = store})),
            straight(options("9ba", store)));
  EXPECT_THAT(log->messages, Contains(HasSubstr("autoresume: going on from")));
}

// The run was killed when the object was written, but the pointer not yet moved. The next start
// resumes from the pointer's target, and replaces the file of its own run. The start never gets
// stuck.
TEST_F(RemoteSaver, AKillBetweenObjectAndPointerIsGotOver) {
  Trainer(options("3ba", store)).fit();
  store->move_pointer("run/checkpoints/latest-rank0.pt", "run/checkpoints/ep0-ba2-rank0.pt");
  Trainer resumed(options("5ba", store));
  EXPECT_EQ(resumed.state().timestamp.batch, 2);
  resumed.fit();
  resumed.close();
  EXPECT_EQ(resumable_state(load("run/checkpoints/latest-rank0.pt", {.store = store})),
            straight(options("5ba", store)));
}

TEST_F(RemoteSaver, OfTwoJobsWithOneRunNameTheSecondIsToldAndHarmsNothing) {
  Trainer first(options("2ba", store));
  TrainerOptions same = options("3ba", store);
  same.loggers = {};
  Trainer second(same);  // Begins while the first run is running.
  first.fit();
  const auto bytes = [&](const char* name) {
    return store->stat("run/checkpoints/" + std::string(name))->version;
  };
  const std::string before = bytes("ep0-ba1-rank0.pt") + bytes("ep0-ba2-rank0.pt");
  EXPECT_THAT(message_of<AlreadyExistsError>([&] { second.fit(); }),
              HasSubstr("another job moves run/checkpoints/latest-rank0.pt"));
  EXPECT_EQ(bytes("ep0-ba1-rank0.pt") + bytes("ep0-ba2-rank0.pt"), before);
  EXPECT_THAT(names(), ElementsAre("ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt", "latest-rank0.pt"));
}

// As in a bucket, neither the target nor the version of the pointer says which job moved it.
TEST_F(RemoteSaver, OfTwoJobsThatWriteOneNameTheSecondIsTold) {
  for (const bool is_versioned : {true, false}) {
    const auto memory = memory_store();
    const auto plain = std::make_shared<testing::PlainStore>(memory, is_versioned);
    const auto made = [&](const std::string& duration) {
      TrainerOptions with = options(duration, plain);
      with.save_filename = "ckpt.pt";
      with.loggers = {};
      return with;
    };
    Trainer first(made("2ba"));
    first.fit();
    Trainer second(made("4ba"));
    EXPECT_EQ(second.state().timestamp.batch, 2);
    first.fit({.duration = "1ba"});
    const std::string before = memory->stat("run/checkpoints/ckpt.pt")->version;
    EXPECT_THROW(second.fit(), AlreadyExistsError);
    EXPECT_EQ(memory->stat("run/checkpoints/ckpt.pt")->version, before);
    first.fit({.duration = "1ba"});
    first.close();
    EXPECT_NE(memory->stat("run/checkpoints/ckpt.pt")->version, before);

    Trainer third(made("6ba"));  // All earlier Trainers have ended.
    EXPECT_EQ(third.state().timestamp.batch, 4);
    third.fit();  // Overwrites this checkpoint and the next two, which the first Trainer wrote.
    third.fit({.duration = "1ba"});
    third.fit({.duration = "1ba"});
    third.fit({.duration = "2ba"});
    EXPECT_EQ(Trainer(made("9ba")).state().timestamp.batch, 6);
  }
}

// After fit(reset_time), saves have the names of existing checkpoints again.
TEST_F(RemoteSaver, TrainingOnceMoreWritesOverItsOwnAndNothingElse) {
  const std::string name = "run/checkpoints/ep0-ba3-rank0.pt";
  for (const bool is_foreign : {false, true}) {
    const auto memory = memory_store();
    Trainer trainer(options("20ba", memory));
    trainer.fit();
    if (is_foreign) {  // Written by another job with this run's name, which has not moved the
                       // pointer yet.
      const SharedBytes other = read_all(*memory->open("run/checkpoints/ep0-ba4-rank0.pt"));
      const auto object = memory->begin(name);
      object->write(other.view);
      object->commit();
    }
    const std::string before = memory->stat(name)->version;
    const auto again = [&] { trainer.fit({.duration = "20ba", .reset_time = true}); };
    if (is_foreign) {
      EXPECT_THAT(message_of<AlreadyExistsError>(again), HasSubstr("another job writes it"));
      EXPECT_EQ(memory->stat(name)->version, before);
    } else {
      again();
      EXPECT_NE(memory->stat(name)->version, before);
    }
  }
}

TEST_F(RemoteSaver, ARequestInABatchThatWasJustSavedSendsNothingTwice) {
  for (const int asked : {SIGUSR2, SIGTERM}) {
    const auto counting = std::make_shared<WatchedStore>(memory_store());
    TrainerOptions made = options("5ba", counting);
    made.handle_signals = true;
    made.callbacks = {testing::CallAt(Event::kBatchEnd, [asked](const State& state) {
      if (state.timestamp.batch == 3) raise(asked);
    })};
    Trainer trainer(std::move(made));
    trainer.fit();
    trainer.close();
    // One more for the probe.
    EXPECT_EQ(counting->calls(StoreCall::kCommit), (asked == SIGTERM ? 3U : 5U) + 1);
  }
}

TEST_F(RemoteSaver, ThatItCannotBeWrittenToIsKnownBeforeTheFirstBatch) {
  const auto read_only = std::make_shared<WatchedStore>(
      store, StoreHooks{.before = [](StoreCall call, const std::string& name) {
        if (call == StoreCall::kBegin) throw StorageError(name + ": 403 AccessDenied", 403);
      }});
  EXPECT_THAT(message_of<StorageError>([&] { Trainer{options("2ba", read_only)}; }),
              HasSubstr("checked before training begins"));
}

TEST_F(RemoteSaver, AnErrorIsThrownBySomeEventSoonBehindIt) {
  const auto commits = std::make_shared<std::atomic<int>>(0);
  const auto failing = std::make_shared<WatchedStore>(
      store, StoreHooks{.before = [commits](StoreCall call, const std::string& name) {
        if (call == StoreCall::kCommit && ++*commits > 3) throw StorageError(name + ": 403", 403);
      }});
  Trainer trainer(options("100ep", failing));  // The probe and two saves succeed.
  EXPECT_THAT(message_of<StorageError>([&] { trainer.fit(); }), HasSubstr("ep0-ba3-rank0.pt: 403"));
  EXPECT_LT(trainer.state().timestamp.batch, 10);
  EXPECT_THAT(names(), ElementsAre("ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt", "latest-rank0.pt"));
}

TEST_F(RemoteSaver, AStopBySignalSavesThereAndAStoreThatHangsIsGivenUp) {
  const auto stopped = [&](std::shared_ptr<ObjectStore> where, std::chrono::seconds timeout) {
    TrainerOptions made = options("9ep", std::move(where));
    made.save_interval = "9ep";
    made.save_upload_timeout = timeout;
    made.handle_signals = true;
    made.callbacks = {testing::CallAt(Event::kBatchEnd, [](const State& state) {
      if (state.timestamp.batch == 3) raise(SIGTERM);
    })};
    return made;
  };
  EXPECT_EQ(Trainer(stopped(store, std::chrono::seconds(60))).fit().reason,
            FitResult::Reason::kInterrupted);
  EXPECT_THAT(names(), ElementsAre("ep0-ba3-rank0.pt", "latest-rank0.pt"));

  const auto fresh = memory_store();
  const auto busy = std::make_shared<WatchedStore>(
      fresh, StoreHooks{.before = [](StoreCall call, const std::string& name) {
        if (call == StoreCall::kCommit && name.ends_with(".pt")) {
          throw StorageError(name + ": 503 SlowDown", 503, true);
        }
      }});
  Trainer trainer(stopped(busy, std::chrono::seconds(0)));
  EXPECT_THROW(trainer.fit(), CancelledError);
  EXPECT_FALSE(fresh->stat("run/checkpoints"));
}

TEST_F(RemoteSaver, ARefusedQuestionIsNoReasonToBeginAgain) {
  Trainer(options("2ba", store)).fit();
  const auto forbidden = std::make_shared<WatchedStore>(
      store, StoreHooks{.before = [](StoreCall call, const std::string& name) {
        if (call == StoreCall::kOpen) throw StorageError(name + ": 403 Forbidden", 403);
      }});
  EXPECT_THROW(Trainer{options("3ba", forbidden)}, StorageError);
}

// A model of 4 MiB whose optimizer state is twice as large.
TEST_F(RemoteSaver, ForFineTuningOnlyTheWeightsAreFetched) {
  const auto with_large_part = [&](TrainerOptions made) {
    made.model->module().register_parameter("large", at::zeros({1 << 20}));
    made.callbacks = {testing::CallAt(Event::kAfterBackward, [](State& state) {
      state.model->module().named_parameters()["large"].mutable_grad() = at::zeros({1 << 20});
    })};
    return made;
  };
  Trainer(with_large_part(options("1ba", store))).fit();
  const auto counting = std::make_shared<WatchedStore>(store);
  const auto load_from_it = [&](bool weights_only) {
    TrainerOptions made = with_large_part(tiny_options());
    made.optimizers = AdamW({.lr = 0.01});
    made.load_path = "run/checkpoints/latest-rank0.pt";
    made.load_object_store = counting;
    made.load_weights_only = weights_only;
    counting->reset();
    const Trainer trainer(std::move(made));
    return counting->bytes_read();
  };
  EXPECT_GT(load_from_it(false), 12U << 20);
  EXPECT_LT(load_from_it(true), 7U << 20);
}

TEST_F(RemoteSaver, AStartAmongTenThousandCheckpointsAsksForFewThings) {
  Trainer(options("2ba", store)).fit();
  const auto one = load("run/checkpoints/ep0-ba1-rank0.pt", {.store = store});
  for (int i = 0; i < 10'000; ++i) {
    const auto object = store->begin("run/checkpoints/ep0-ba1-rank0.pt." + std::to_string(i));
    object->write(as_bytes("x"));
    object->commit();
  }
  const auto counting = std::make_shared<WatchedStore>(store);
  Trainer trainer(options("3ba", counting));
  EXPECT_EQ(trainer.state().timestamp.batch, 2);
  const std::uint64_t start = counting->requests();
  EXPECT_LE(start, 20U);  // Including the probe and the pointer.
  trainer.fit();
  EXPECT_LE(counting->requests() - start, 50U);  // Two listings of eleven pages each, and the save.
}

}  // namespace
}  // namespace cairn
