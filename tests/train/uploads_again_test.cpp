// Repeated uploads: by a second fit(), by a request in a batch that was just saved, and by newer
// saves with the name of a waiting upload.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <future>

#include "cairn/error.h"
#include "cairn/loggers/run_directory_uploader.h"

#include "saving/saver_uploads.h"
#include "testing/message_of.h"
#include "testing/watched_store.h"
#include "tests/train/uploader_fixture.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::read_file;
using testing::resumable_state;
using testing::SlowDestination;
using testing::StoreCall;
using testing::StoreHooks;
using testing::Uploader;
using testing::WatchedStore;
using testing::write_file;

// fit(reset_time) uses the names of the first fit() once more, long after the queue has passed
// them.
TEST_F(Uploader, TrainingOnceMoreFromTheBeginningWritesItsOwnUploadsAgain) {
  Trainer trainer(options("40ba"));
  trainer.fit();
  const std::string before = store->stat("run/checkpoints/ep0-ba2-rank0.pt")->version;
  trainer.fit({.duration = "40ba", .reset_time = true});
  trainer.close();
  EXPECT_NE(store->stat("run/checkpoints/ep0-ba2-rank0.pt")->version, before);
  for (const char* name : {"ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt", "latest-rank0.pt"}) {
    EXPECT_EQ(remote(name), resumable_state(load(folder / ("ckpt/" + std::string(name))))) << name;
  }
}

TEST_F(Uploader, TrainingOnceMoreWritesNothingOfAnotherJobsOver) {
  Trainer trainer(options("40ba"));
  trainer.fit();
  const auto object = store->begin("run/checkpoints/ep0-ba3-rank0.pt");
  object->write(as_bytes("another job's, which has not moved the pointer yet"));
  object->commit();
  const std::string before = store->stat("run/checkpoints/ep0-ba3-rank0.pt")->version;
  EXPECT_THAT(message_of<AlreadyExistsError>(
                  [&] { trainer.fit({.duration = "40ba", .reset_time = true}); }),
              HasSubstr("another job writes it"));
  EXPECT_EQ(store->stat("run/checkpoints/ep0-ba3-rank0.pt")->version, before);
}

// Only the newest uploads of the first start are left. So the names of the first saves are free,
// and the second start would upload to them before it meets an existing file.
TEST_F(Uploader, AStartThatWouldWriteOverUploadsIsRefusedBeforeItTrains) {
  const auto made = [&] {
    TrainerOptions with = options("4ba");
    with.autoresume = false;
    CheckpointSaverOptions kept_there = saver();
    kept_there.num_checkpoints_to_keep = 0;
    kept_there.num_remote_checkpoints_to_keep = 2;
    with.callbacks = {CheckpointSaver(kept_there)};
    return with;
  };
  Trainer(made()).fit();
  const std::vector<std::string> before = names();
  Trainer second(made());
  EXPECT_THAT(message_of<AlreadyExistsError>([&] { second.fit(); }),
              HasSubstr("run/checkpoints/ep0-ba3-rank0.pt could be overwritten by this run"));
  EXPECT_EQ(second.state().timestamp.batch, 0);
  EXPECT_EQ(names(), before);
  EXPECT_EQ(store->read_pointer("run/checkpoints/latest-rank0.pt")->target,
            "run/checkpoints/ep0-ba4-rank0.pt");
}

TEST_F(Uploader, AnUploadOfTheSameProcessIsNoConflict) {
  CheckpointSaverOptions once_an_epoch = saver();
  once_an_epoch.remote_file_name = "{run_name}/checkpoints/ep{epoch}.pt";
  once_an_epoch.save_interval = [](const State& state, Event event) {
    return event == Event::kBatchCheckpoint && state.timestamp.batch_in_epoch == 1;
  };
  TrainerOptions made = options("7ba");
  made.autoresume = false;
  made.callbacks = {CheckpointSaver(once_an_epoch)};
  Trainer trainer(std::move(made));
  trainer.fit();
  trainer.fit({.duration = "5ba"});
  EXPECT_THAT(names(), ::testing::ElementsAre("ep0.pt", "ep1.pt", "ep2.pt", "latest-rank0.pt"));
}

// Existing local files are refused when fit() begins, as in Composer. Existing uploads are refused
// at the first fit() of a process; after that, when they are uploaded.
TEST_F(Uploader, WithoutOverwriteOrAutoresumeTrainingOnceMoreIsRefused) {
  for (const bool is_here : {true, false}) {
    keep = is_here ? -1 : 0;
    store = memory_store();
    fs::remove_all(folder / "ckpt");
    TrainerOptions made = options("3ba");
    made.autoresume = false;
    made.callbacks = {CheckpointSaver(saver())};
    Trainer trainer(std::move(made));
    trainer.fit();
    const std::string before = store->stat("run/checkpoints/ep0-ba1-rank0.pt")->version;
    EXPECT_THROW(trainer.fit({.duration = "3ba", .reset_time = true}), AlreadyExistsError);
    EXPECT_EQ(store->stat("run/checkpoints/ep0-ba1-rank0.pt")->version, before);
  }
}

// The last saved batch of the first fit() is not special to the second one.
TEST_F(Uploader, TheBatchThatWasSavedLastIsSavedAgainWhenTimeWasSetBack) {
  for (const char* interval : {"4ba", "1ep"}) {
    fs::remove_all(folder / "ckpt");
    store = memory_store();
    TrainerOptions made = options("4ba");
    CheckpointSaverOptions with = saver();
    with.save_interval = interval;
    with.save_async = false;
    made.callbacks = {CheckpointSaver(with)};
    Trainer trainer(std::move(made));
    trainer.fit();
    const std::string path = folder / "ckpt/ep0-ba4-rank0.pt";
    const std::string before = read_file(path);
    trainer.fit({.duration = "4ba", .reset_time = true});
    EXPECT_NE(read_file(path), before) << interval;
  }
}

// A batch that was saved anyway satisfies the request.
TEST_F(Uploader, ARequestInABatchThatWasJustSavedSavesNothingTwice) {
  for (const int asked : {SIGUSR2, SIGTERM}) {
    for (const int kept : {-1, 0}) {
      keep = kept;
      const auto counting = std::make_shared<WatchedStore>(memory_store());
      store = counting;
      fs::remove_all(folder / "ckpt");
      TrainerOptions made = options("5ba");
      made.autoresume = false;
      made.handle_signals = true;
      made.callbacks = {CheckpointSaver(saver()),
                        testing::CallAt(Event::kBatchEnd, [asked](const State& state) {
                          if (state.timestamp.batch == 3) raise(asked);
                        })};
      Trainer trainer(std::move(made));
      const bool stops = asked == SIGTERM;
      EXPECT_EQ(trainer.fit().reason,
                stops ? FitResult::Reason::kInterrupted : FitResult::Reason::kFinished);
      trainer.close();
      EXPECT_EQ(names().size(), stops ? 4U : 6U);
      EXPECT_EQ(counting->calls(StoreCall::kCommit), (stops ? 3U : 5U) + 1);  // Plus the probe.
      for (const std::string& message : log->messages) {
        EXPECT_THAT(message, ::testing::Not(HasSubstr("fail")));
      }
    }
  }
}

// A failed upload is no checkpoint, so the last save uploads it.
TEST_F(Uploader, ASigtermBehindAnUploadThatFailedSavesOnceMore) {
  const auto memory = store;
  const auto is_broken = std::make_shared<std::atomic<bool>>(true);
  store = std::make_shared<WatchedStore>(
      memory, StoreHooks{.before = [is_broken](StoreCall call, const std::string& name) {
        if (call == StoreCall::kCommit && name.ends_with("ba3-rank0.pt") &&
            is_broken->exchange(false)) {
          throw StorageError(name + ": 403", 403);
        }
      }});
  const auto uploader =
      std::make_shared<RemoteUploaderDownloader>(RemoteUploaderDownloaderOptions{.store = store});
  TrainerOptions made = options("9ep");
  made.autoresume = false;
  made.handle_signals = true;
  made.loggers = {uploader};
  CheckpointSaverOptions with = saver();
  with.save_interval = "3ba";
  with.save_async = false;
  made.callbacks = {CheckpointSaver(with),
                    testing::CallAt(Event::kBatchCheckpoint, [&](State& state) {
                      if (state.timestamp.batch != 3) return;
                      Logger logger(state);
                      EXPECT_THROW(for (;;) uploader->batch_end(state, logger), StorageError);
                      raise(SIGTERM);
                    })};
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kInterrupted);
  trainer.close();
  EXPECT_TRUE(memory->stat("run/checkpoints/ep0-ba3-rank0.pt"));
}

// Saves are faster than the network, and all uploads have one name. Only the newest file is kept
// here.
TEST_F(Uploader, TheFileOfAnUploadThatANewerOneReplacedIsRemovedHere) {
  std::promise<void> has_begun;
  std::promise<void> go_on;
  const auto memory = store;
  store = std::make_shared<WatchedStore>(
      memory, StoreHooks{.before = [&, is_first = std::make_shared<std::atomic<bool>>(true)](
                                       StoreCall call, const std::string& name) {
        if (call != StoreCall::kCommit || !name.ends_with("ckpt.pt") || !is_first->exchange(false))
          return;
        has_begun.set_value();
        go_on.get_future().wait();
      }});
  TrainerOptions made = options("20ba");
  made.autoresume = false;
  std::size_t most = 0;
  made.callbacks = {CheckpointSaver({.folder = folder / "ckpt",
                                     .remote_file_name = "run/ckpt.pt",
                                     .latest_remote_file_name = std::nullopt,
                                     .save_interval = "1ba",
                                     .overwrite = true,
                                     .num_checkpoints_to_keep = 0,
                                     .save_async = false}),
                    testing::CallAt(Event::kBatchStart, [&](const State& state) {
                      if (state.timestamp.batch == 1) has_begun.get_future().wait();
                      most = std::max(most, list_names(*local_store(), folder / "ckpt").size());
                      if (state.timestamp.batch == 19) go_on.set_value();
                    })};
  Trainer trainer(std::move(made));
  trainer.fit();
  trainer.close();
  EXPECT_LE(most, 3U);  // One is under way, one waits, one was just replaced.
  EXPECT_THAT(list_names(*local_store(), folder / "ckpt"), IsEmpty());
  EXPECT_THAT(log->messages,
              Contains(::testing::AllOf(HasSubstr("uploaded "), HasSubstr("ep3-ba20-rank0.pt"),
                                        ::testing::Not(HasSubstr("not ")))));
}

// If the last look at the folder fails, pending uploads still finish.
TEST_F(Uploader, ARunDirectoryUploaderFinishesAlsoWhenItsLastLookFails) {
  const std::string run = folder / "run";
  const std::string staging = folder / "staging";
  fs::create_directory(run);
  fs::create_directory(staging);
  State state;
  Logger logger(state);
  state.run_name = "run";
  RunDirectoryUploader uploader(
      {.run_directory = run, .upload_staging_folder = staging, .store = store});
  uploader.init(state, logger);
  fs::remove(staging);
  write_file(run + "/a.txt", "a");
  EXPECT_THROW(uploader.close(state, logger), StorageError);
  fs::create_directory(staging);
  EXPECT_THAT(message_of<UsageError>([&] { uploader.fit_end(state, logger); }),
              HasSubstr("uploading has ended already"));
}

// If a destination drops a file because a newer one has its name, that is no failure.
TEST(SaverUploadsTest, WhatIsReplacedIsReportedAndWhatFailsIsNot) {
  struct Replacing final : LoggerDestination {
    bool can_upload_files() const override { return true; }
    void upload_file(const FileUpload& file) override { waiting = file; }
    FileUpload waiting;
  };
  State state;
  Logger logger(state);
  const auto destination = std::make_shared<Replacing>();
  logger.add(destination);
  SaverUploads uploads(/*keep=*/-1);
  const auto hand_over = [&](const std::string& path) {
    uploads.begin(path, {"run/newest.pt", ""});
    uploads.hand_over(path, logger, Replace::kAll);
  };
  hand_over("1.pt");
  hand_over("2.pt");
  auto taken = uploads.take_uploaded();
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].path, "1.pt");
  EXPECT_TRUE(taken[0].is_replaced && taken[0].is_there);
  EXPECT_FALSE(uploads.has_newest_failed());
  destination->waiting = {};
  EXPECT_THAT(uploads.take_uploaded(), IsEmpty());
  EXPECT_TRUE(uploads.has_newest_failed());
  hand_over("3.pt");
  EXPECT_FALSE(uploads.has_newest_failed());
  EXPECT_EQ(uploads.size(), 1U);
}

// A destination that keeps arrived files and removes superfluous ones, or fails.
struct KeepingOrFailing final : LoggerDestination {
  bool can_upload_files() const override { return true; }
  void upload_file(const FileUpload& file) override {
    if (fails) return;
    there.push_back(file.remote_file_name);
    for (const std::string& name : file.remove_afterwards)
      std::erase(there, name);
    file.on_done({});
  }
  bool fails = false;
  std::vector<std::string> there;
};

// A failed upload is not counted as one that exists, so no other one is removed for it.
TEST(SaverUploadsTest, WhatFailsIsNotCountedAmongThoseToKeep) {
  for (const int keep : {1, 2}) {
    State state;
    Logger logger(state);
    const auto destination = std::make_shared<KeepingOrFailing>();
    logger.add(destination);
    SaverUploads uploads(keep);
    std::vector<std::string> arrived;
    int count = 0;
    for (const bool fails :
         {false, false, false, true, false, true, true, true, true, false, false, true, false}) {
      const std::string name = std::to_string(++count) + (fails ? " fails" : "");
      destination->fails = fails;
      uploads.begin(name, {name});
      uploads.hand_over(name, logger, Replace::kNever);
      uploads.take_uploaded();
      if (!fails) arrived.push_back(name);
      const std::size_t first = arrived.size() - std::min<std::size_t>(arrived.size(), keep);
      EXPECT_EQ(destination->there,
                std::vector(arrived.begin() + static_cast<std::ptrdiff_t>(first), arrived.end()))
          << "the newest " << keep << " that arrived, behind " << name;
      EXPECT_LE(uploads.size(), 2U * static_cast<std::size_t>(keep) + 1);
    }
  }
}

// At a destination where it arrived, it counts as one of those to keep.
TEST(SaverUploadsTest, AnotherDestinationKeepsAsManyAsItIsTo) {
  State state;
  Logger logger(state);
  const auto good = std::make_shared<KeepingOrFailing>();
  const auto bad = std::make_shared<KeepingOrFailing>();
  bad->fails = true;
  logger.add(good);
  logger.add(bad);
  SaverUploads uploads(/*keep=*/3);
  for (int i = 1; i <= 12; ++i) {
    const std::string name = std::to_string(i);
    uploads.begin(name, {name});
    uploads.hand_over(name, logger, Replace::kNever);
    uploads.take_uploaded();
    EXPECT_GE(good->there.size(), static_cast<std::size_t>(std::min(i, 3)));
    EXPECT_LE(good->there.size(), 4U);
    EXPECT_EQ(good->there.back(), name);
  }
}

TEST(SaverUploadsTest, WhatOneDestinationRefusesTheOthersGet) {
  struct Refusing final : LoggerDestination {
    bool can_upload_files() const override { return true; }
    void upload_file(const FileUpload& file) override {
      throw AlreadyExistsError(file.remote_file_name + " is there");
    }
  };
  State state;
  Logger logger(state);
  const auto slow = std::make_shared<SlowDestination>();
  testing::TempFolder folder;
  write_file(folder / "1.pt", "1");
  logger.add(std::make_shared<Refusing>());
  logger.add(slow);
  SaverUploads uploads(/*keep=*/-1);
  uploads.begin(folder / "1.pt", {"run/1.pt"});
  EXPECT_THROW(uploads.hand_over(folder / "1.pt", logger, Replace::kNever), AlreadyExistsError);
  EXPECT_EQ(slow->files.size(), 1U);
}

// For example the last save of a run.
TEST_F(Uploader, AnEarlierFileThatIsRefusedCostsNoRequestedSave) {
  struct Refusing final : LoggerDestination {
    bool can_upload_files() const override { return true; }
    void upload_file(const FileUpload& file) override {
      ++count;
      throw AlreadyExistsError(file.remote_file_name + " is there");
    }
    int count = 0;
  };
  const auto destination = std::make_shared<Refusing>();
  Trainer trainer(testing::tiny_options());
  State& state = trainer.state();
  trainer.logger().add(destination);
  CheckpointSaver made(saver());
  made.init(state, trainer.logger());
  const auto save_next = [&](const auto& save) {
    state.timestamp = state.timestamp.to_next_batch(2, 0, {});
    save();
    made.wait();
  };
  // Until one still waits to be handed over.
  for (int refused = -1; refused != destination->count;) {
    refused = destination->count;
    save_next([&] {
      try {
        made.save(state, trainer.logger());
      } catch (const AlreadyExistsError&) {
        // It was written so soon that it was handed over at once.
      }
    });
  }
  save_next(
      [&] { EXPECT_THROW(made.save_unless_saved(state, trainer.logger()), AlreadyExistsError); });
  const std::string name = "ep0-ba" + std::to_string(state.timestamp.batch) + "-rank0.pt";
  EXPECT_TRUE(fs::exists(folder / ("ckpt/" + name)));
}

}  // namespace
}  // namespace cairn
