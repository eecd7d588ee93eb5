// RemoteUploaderDownloader: checkpoints are saved on this machine and kept in a store.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/loggers/file_logger.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/loggers/run_directory_uploader.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "io/bytes/source_part.h"
#include "saving/saver_uploads.h"
#include "storage/listing.h"
#include "testing/message_of.h"
#include "testing/resumable_state.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"
#include "testing/watched_store.h"
#include "tests/train/uploader_fixture.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogRecorder;
using testing::message_of;
using testing::read_file;
using testing::resumable_state;
using testing::SlowDestination;
using testing::StoreCall;
using testing::StoreHooks;
using testing::tiny_options;
using testing::Uploader;
using testing::WatchedStore;
using testing::write_file;

// T21, T22: the pointer leads to the uploaded checkpoint.
TEST_F(Uploader, CheckpointsAndThePointerAreUploadedWithTheirRemoteNames) {
  Trainer(options("2ba")).fit();
  EXPECT_THAT(names(), ElementsAre("ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt", "latest-rank0.pt"));
  EXPECT_EQ(store->read_pointer("run/checkpoints/latest-rank0.pt")->target,
            "run/checkpoints/ep0-ba2-rank0.pt");
  EXPECT_EQ(remote("latest-rank0.pt"), resumable_state(load(folder / "ckpt/latest-rank0.pt")));
}

TEST_F(Uploader, TheTrainersOwnSaverNamesThemAfterItsFolder) {
  TrainerOptions made = options("1ba");
  made.callbacks = {};
  made.save_folder = folder / "{run_name}";
  made.save_interval = "1ba";
  Trainer(std::move(made)).fit();
  EXPECT_THAT(list_names(*store, folder / "run"),
              ElementsAre("ep0-ba1-rank0.pt", "latest-rank0.pt"));
}

TEST_F(Uploader, KeepingNoneHereMeansUntilTheyAreThere) {
  keep = 0;
  Trainer trainer(options("3ba"));
  trainer.fit();
  trainer.close();
  EXPECT_THAT(list_names(*local_store(), folder / "ckpt"), IsEmpty());
  EXPECT_EQ(names().size(), 4U);
}

TEST_F(Uploader, KeepingNoneHereNothingIsLeftWhenFitReturns) {
  keep = 0;
  Trainer trainer(options("3ba"));
  trainer.fit();
  EXPECT_THAT(list_names(*local_store(), folder / "ckpt"), IsEmpty());
  EXPECT_THAT(trainer.saved_checkpoints(), IsEmpty());
  EXPECT_EQ(names().size(), 4U);
}

TEST_F(Uploader, ARunGoesOnFromTheStoreWhenTheFolderIsGone) {
  for (const int kept : {-1, 1, 0}) {
    keep = kept;
    store = memory_store();
    Trainer(options("2ba")).fit();
    fs::remove_all(folder / "ckpt");
    Trainer resumed(options("4ba"));
    EXPECT_EQ(resumed.state().timestamp.batch, 2);
    resumed.fit();
    resumed.close();
    const Value stopped = remote("latest-rank0.pt");
    store = memory_store();
    fs::remove_all(folder / "ckpt");
    Trainer(options("4ba")).fit();
    EXPECT_EQ(stopped, remote("latest-rank0.pt")) << kept;
    fs::remove_all(folder / "ckpt");
  }
}

TEST_F(Uploader, AStaleFileHereNeverBeatsANewerOneThereNorTheOtherWayRound) {
  Trainer(options("2ba")).fit();
  fs::copy(folder / "ckpt", folder / "old",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  Trainer(options("4ba")).fit();
  fs::remove_all(folder / "ckpt");
  fs::rename(folder / "old", folder / "ckpt");
  EXPECT_EQ(Trainer(options("9ba")).state().timestamp.batch, 4);

  Trainer(options("4ba")).fit();
  store = memory_store();  // As if the bucket had been emptied.
  fs::remove_all(folder / "ckpt");
  Trainer(options("3ba")).fit();
  store = memory_store();
  EXPECT_EQ(Trainer(options("9ba")).state().timestamp.batch, 3);
}

TEST_F(Uploader, TheCopyThereStandsInForADamagedOneHere) {
  Trainer(options("3ba")).fit();
  damage("ep0-ba3-rank0.pt");
  EXPECT_EQ(Trainer(options("9ba")).state().timestamp.batch, 3);
  EXPECT_THAT(log->messages, Contains(HasSubstr("autoresume skipped")));
}

TEST_F(Uploader, AStoreThatCannotBeAskedEndsTheStart) {
  Trainer(options("2ba")).fit();
  store = std::make_shared<WatchedStore>(
      store, StoreHooks{.before = [](StoreCall call, const std::string& name) {
        if (call == StoreCall::kReadPointer) throw StorageError(name + ": 403 Forbidden", 403);
      }});
  EXPECT_THROW(Trainer{options("3ba")}, StorageError);
}

TEST_F(Uploader, OlderOnesThereAreRemovedWhenAsked) {
  TrainerOptions made = options("5ba");
  CheckpointSaverOptions with = saver();
  with.num_checkpoints_to_keep = 1;
  with.num_remote_checkpoints_to_keep = 2;
  made.callbacks = {CheckpointSaver(with)};
  Trainer(std::move(made)).fit();
  EXPECT_THAT(names(), ElementsAre("ep0-ba4-rank0.pt", "ep0-ba5-rank0.pt", "latest-rank0.pt"));
  EXPECT_THAT(list_names(*local_store(), folder / "ckpt"),
              ElementsAre("ep0-ba5-rank0.pt", "latest-rank0.pt"));
}

TEST_F(Uploader, TwoJobsWithOneRunNameDoNotOverwriteEachOther) {
  Trainer(options("1ba")).fit();
  Trainer first(options("2ba"));
  first.fit();
  // The same run on another machine, which has only the files from its beginning.
  testing::TempFolder other_machine;
  store->move_pointer("run/checkpoints/latest-rank0.pt", "run/checkpoints/ep0-ba1-rank0.pt");
  TrainerOptions made = options("3ba");
  made.loggers = {RemoteUploaderDownloader({.store = store})};
  CheckpointSaverOptions with = saver();
  with.folder = other_machine.path();
  made.callbacks = {CheckpointSaver(with)};
  Trainer second(std::move(made));
  EXPECT_EQ(second.state().timestamp.batch, 1);
  second.fit();
  // The first job continues and gets an error: the pointer is not where the job put it.
  EXPECT_THAT(message_of<AlreadyExistsError>([&] { first.fit({.duration = "2ba"}); }),
              HasSubstr("another job moves run/checkpoints/latest-rank0.pt"));
  EXPECT_EQ(store->read_pointer("run/checkpoints/latest-rank0.pt")->target,
            "run/checkpoints/ep0-ba3-rank0.pt");
}

// The first job is still running and saving when the second job has resumed from an earlier
// checkpoint.
TEST_F(Uploader, AJobThatSavesBehindTheStartOfAnotherIsNotOverwritten) {
  const auto version = [&](const std::string& name) {
    return store->stat("run/checkpoints/" + name)->version;
  };
  for (const bool moves_pointer : {true, false}) {
    store = memory_store();
    fs::remove_all(folder / "ckpt");
    Trainer first(options("1ba"));
    first.fit();
    testing::TempFolder other_machine;
    TrainerOptions made = options("4ba");
    made.loggers = {RemoteUploaderDownloader({.store = store})};
    CheckpointSaverOptions with = saver();
    with.folder = other_machine.path();
    made.callbacks = {CheckpointSaver(with)};
    Trainer second(std::move(made));
    EXPECT_EQ(second.state().timestamp.batch, 1);
    if (moves_pointer) {
      first.fit({.duration = "2ba"});
    } else {  // The first job is between writing the object and moving the pointer.
      const auto object = store->begin("run/checkpoints/ep0-ba2-rank0.pt");
      object->write(as_bytes("its own"));
      object->commit();
    }
    const std::string before = version("ep0-ba2-rank0.pt");
    EXPECT_THROW(second.fit(), AlreadyExistsError);
    EXPECT_EQ(version("ep0-ba2-rank0.pt"), before);
    if (!moves_pointer) continue;
    EXPECT_EQ(store->read_pointer("run/checkpoints/latest-rank0.pt")->target,
              "run/checkpoints/ep0-ba3-rank0.pt");
  }
}

// All uploads have one name. The job may overwrite objects that it wrote itself, and no others.
TEST_F(Uploader, OneNameForAllUploadsIsThisJobsOwn) {
  const auto made = [&](const std::string& duration) {
    TrainerOptions with = options(duration);
    CheckpointSaverOptions one = saver();
    one.remote_file_name = "{run_name}/checkpoints/ckpt.pt";
    with.callbacks = {CheckpointSaver(one)};
    return with;
  };
  Trainer(made("2ba")).fit();
  Trainer resumed(made("4ba"));
  EXPECT_EQ(resumed.state().timestamp.batch, 2);
  resumed.fit();
  EXPECT_EQ(remote("ckpt.pt"), resumable_state(load(folder / "ckpt/latest-rank0.pt")));
}

// That an older save has arrived says nothing about the newer file that has replaced that save's
// file.
TEST_F(Uploader, OnlyTheFileThatArrivedIsRemovedHere) {
  for (const bool newest_arrives : {false, true}) {
    fs::remove_all(folder / "ckpt");
    const auto slow = std::make_shared<SlowDestination>();
    TrainerOptions made = options("2ba");
    made.autoresume = false;
    made.loggers = {slow, log};
    made.callbacks = {CheckpointSaver({.folder = folder / "ckpt",
                                       .filename = "ckpt.pt",
                                       .save_interval = "1ba",
                                       .num_checkpoints_to_keep = 0,
                                       .save_async = false})};
    Trainer trainer(std::move(made));
    trainer.fit();
    ASSERT_EQ(slow->files.size(), 2U);
    slow->files[newest_arrives ? 1 : 0].on_done({});
    trainer.close();
    EXPECT_EQ(fs::exists(folder / "ckpt/ckpt.pt"), !newest_arrives);
  }
}

// An upload may also arrive while the next save with the same path is under way.
TEST_F(Uploader, AnArrivalDuringTheNextSaveOfThePathHarmsNothing) {
  const auto slow = std::make_shared<SlowDestination>();
  TrainerOptions made = options("5ba");
  made.autoresume = false;
  made.loggers = {slow, log};
  // A callback whose state is requested while the save is under way.
  struct Arrive final : Callback {
    explicit Arrive(std::shared_ptr<SlowDestination> to) : slow(std::move(to)) {}
    std::string name() const override { return "Arrive"; }
    Value state_dict() const override {
      if (!slow->files.empty()) slow->files.back().on_done({});
      return Dict();
    }
    std::shared_ptr<SlowDestination> slow;
  };
  made.callbacks = {CheckpointSaver({.folder = folder / "ckpt",
                                     .filename = "ckpt.pt",
                                     .save_interval = "1ba",
                                     .num_checkpoints_to_keep = 0,
                                     .save_async = false}),
                    Arrive(slow)};
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_EQ(slow->files.size(), 5U);
  EXPECT_TRUE(fs::exists(folder / "ckpt/ckpt.pt"));
  slow->files.back().on_done({});
  trainer.close();
  EXPECT_FALSE(fs::exists(folder / "ckpt/ckpt.pt"));
}

// T64, T65, T63: uploads with their own name format, and several uploads at once. Composer refuses
// both with autoresume.
TEST_F(Uploader, AFormatAndSeveralUploadsAtOnceGoWithAutoresume) {
  const auto made = [&](const std::string& duration) {
    TrainerOptions with = options(duration);
    with.loggers = {RemoteUploaderDownloader({.file_path_format_string = "a/{remote_file_name}.x",
                                              .num_concurrent_uploads = 3,
                                              .store = store}),
                    log};
    return with;
  };
  Trainer(made("5ba")).fit();
  EXPECT_EQ(store->read_pointer("a/run/checkpoints/latest-rank0.pt.x")->target,
            "a/run/checkpoints/ep0-ba5-rank0.pt.x");
  fs::remove_all(folder / "ckpt");
  EXPECT_EQ(Trainer(made("9ba")).state().timestamp.batch, 5);
}

// If the name is constant, the upload of the previous file says nothing about the file that has the
// name now.
TEST(SaverUploadsTest, WhatArrivesIsTheFileThatHasThePathNow) {
  struct Destination final : LoggerDestination {
    bool can_upload_files() const override { return true; }
    void upload_file(const FileUpload& file) override { files.push_back(file); }
    std::vector<FileUpload> files;
  };
  State state;
  Logger logger(state);
  const auto destination = std::make_shared<Destination>();
  logger.add(destination);
  SaverUploads uploads(/*keep=*/-1);
  uploads.begin("last.pt", {"run/1.pt", "run/latest"});
  uploads.hand_over("last.pt", logger, Replace::kNever);
  uploads.begin("last.pt", {"run/2.pt", "run/latest"});
  destination->files.at(0).on_done({});
  EXPECT_THAT(uploads.take_uploaded(), IsEmpty());
  uploads.hand_over("last.pt", logger, Replace::kNever);
  const auto uploaded = [&] {
    std::vector<std::pair<std::string, bool>> all;
    for (const auto& [path, is_there, is_replaced] : uploads.take_uploaded())
      all.emplace_back(path, is_there);
    return all;
  };
  EXPECT_THAT(uploaded(), ElementsAre(std::pair("last.pt", false)));
  destination->files.at(1).on_done({});
  EXPECT_THAT(uploaded(), ElementsAre(std::pair("last.pt", true)));
  EXPECT_EQ(destination->files.at(1).remote_file_name, "run/2.pt");
  uploads.hand_over("another.pt", logger, Replace::kNever);  // The save of this file was not begun.
  EXPECT_EQ(destination->files.size(), 2U);
}

// This holds whether uploads arrive, fail, or are replaced while they wait.
TEST(SaverUploadsTest, HoldsNoMoreOfALongRunThanOfAShortOne) {
  struct Keeping final : LoggerDestination {
    bool can_upload_files() const override { return true; }
    void upload_file(const FileUpload& file) override { files.push_back(file); }
    std::vector<FileUpload> files;
  };
  for (const int keep : {-1, 3}) {
    State state;
    Logger logger(state);
    const auto destination = std::make_shared<Keeping>();
    logger.add(destination);
    SaverUploads uploads(keep);
    std::size_t most = 0;
    for (int i = 0; i < 10'000; ++i) {
      const std::string path = "ep0-ba" + std::to_string(i) + ".pt";
      uploads.begin(path, {"run/" + path, "run/latest"});
      uploads.hand_over(path, logger, Replace::kNever);
      if (i % 3 != 0) destination->files.back().on_done({});
      if (destination->files.size() > 2) destination->files.clear();
      uploads.take_uploaded();
      most = std::max(most, uploads.size());
    }
    EXPECT_LE(most, 8U) << keep;
  }
}

TEST_F(Uploader, SaversThatWouldUploadUnderOneNameAreRefused) {
  TrainerOptions made = options("1ba");
  CheckpointSaverOptions weights = {.folder = folder / "weights", .weights_only = true};
  made.callbacks = {CheckpointSaver(saver()), CheckpointSaver(weights)};
  EXPECT_THAT(message_of<UsageError>([&] { Trainer{made}; }),
              HasSubstr("another remote_file_name"));
  weights.remote_file_name = "{run_name}/weights/ep{epoch}.pt";
  weights.latest_remote_file_name = std::nullopt;
  made.callbacks = {CheckpointSaver(saver()), CheckpointSaver(weights)};
  Trainer(made).fit();
  EXPECT_THAT(list_names(*store, "run/weights"), ElementsAre("ep0.pt"));
  EXPECT_THROW(CheckpointSaver({.remote_file_name = "{run_name}/latest-rank{rank}.pt",
                                .latest_remote_file_name = "{run_name}/latest-rank{rank}.pt"}),
               UsageError);
  EXPECT_THROW(CheckpointSaver({.remote_file_name = "{nobody}"}), UsageError);
}

TEST_F(Uploader, AStopBySignalStillBringsTheLastCheckpointThere) {
  for (const int kept : {-1, 0}) {
    keep = kept;
    store = memory_store();
    TrainerOptions made = options("9ep");
    made.handle_signals = true;
    made.callbacks = {
        CheckpointSaver(
            {.folder = folder / "ckpt", .save_interval = "1ep", .num_checkpoints_to_keep = keep}),
        testing::CallAt(Event::kBatchEnd, [](const State& state) {
          if (state.timestamp.batch == 3) raise(SIGTERM);
        })};
    Trainer trainer(std::move(made));
    EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kInterrupted);
    trainer.close();
    EXPECT_EQ(store->read_pointer("run/checkpoints/latest-rank0.pt")->target,
              "run/checkpoints/ep0-ba3-rank0.pt");
    fs::remove_all(folder / "ckpt");
  }
}

// The last save is uploaded even if training fails before the loggers are called again.
TEST_F(Uploader, AFailureOfTrainingCostsNoCheckpoint) {
  TrainerOptions made = options("9ep");
  made.callbacks = {CheckpointSaver(saver()),
                    testing::CallAt(Event::kBatchStart, [](const State& s) {
                      if (s.timestamp.batch == 3) throw TrainingError("the loss is NaN");
                    })};
  Trainer trainer(std::move(made));
  EXPECT_THROW(trainer.fit(), TrainingError);
  trainer.close();
  EXPECT_EQ(store->read_pointer("run/checkpoints/latest-rank0.pt")->target,
            "run/checkpoints/ep0-ba3-rank0.pt");
}

TEST_F(Uploader, ABadNetworkCostsTimeAndNothingElse) {
  const auto memory = store;
  store = std::make_shared<WatchedStore>(memory, testing::random_faults(0.1, /*seed=*/4));
  TrainerOptions made = options("4ba");
  made.autoresume = false;
  made.loggers = {RemoteUploaderDownloader({.num_attempts = 12, .store = store})};
  Trainer(std::move(made)).fit();
  store = memory;
  EXPECT_EQ(remote("latest-rank0.pt"), resumable_state(load(folder / "ckpt/latest-rank0.pt")));
}

TEST_F(Uploader, ARunDirectoryIsKeptUpToDate) {
  const auto counting = std::make_shared<WatchedStore>(store);
  const std::string run = folder / "my_run";
  const auto uploader = std::make_shared<RunDirectoryUploader>(RunDirectoryUploaderOptions{
      .run_directory = run, .upload_every_n_batches = 2, .store = counting});
  TrainerOptions made = tiny_options();
  made.max_duration = "3ba";
  made.save_interval = "1ba";
  made.save_folder = run + "/checkpoints";
  made.loggers = {uploader, FileLogger({.filename = run + "/log.jsonl"})};
  Trainer trainer(std::move(made));
  trainer.fit();
  trainer.close();
  EXPECT_THAT(list_names(*store, "my_run/rank_0"), ElementsAre("checkpoints", "log.jsonl"));
  EXPECT_THAT(list_names(*store, "my_run/rank_0/checkpoints"),
              ElementsAre("ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt", "ep0-ba3-rank0.pt"));
  const std::string last = "checkpoints/ep0-ba3-rank0.pt";
  EXPECT_EQ(resumable_state(load("my_run/rank_0/" + last, {.store = store})),
            resumable_state(load(run + "/" + last)));
  EXPECT_EQ(uploader->get_uri_for_uploaded_file(run + "/" + last), "my_run/rank_0/" + last);
  // The probe, each checkpoint once, and the log file each time that the uploader looked at it.
  EXPECT_LE(counting->calls(StoreCall::kCommit), 1U + 3 + 4);
  EXPECT_THROW(RunDirectoryUploader({.upload_every_n_batches = 0, .store = store}), UsageError);
}

TEST_F(Uploader, WhatDidNotArriveOfARunDirectoryIsSentAgain) {
  bool is_broken = true;
  const auto broken = std::make_shared<WatchedStore>(
      store, StoreHooks{.before = [&](StoreCall call, const std::string& name) {
        if (is_broken && call == StoreCall::kCommit && name.ends_with("/a.txt")) {
          throw StorageError(name + ": 403", 403);
        }
      }});
  write_file(folder / "a.txt", "a");
  State state;
  Logger logger{state};
  state.run_name = "run";
  RunDirectoryUploader uploader(
      {.run_directory = folder.path(), .object_name_prefix = "kept", .store = broken});
  uploader.init(state, logger);
  EXPECT_THROW(uploader.fit_end(state, logger), StorageError);
  EXPECT_FALSE(store->stat("kept/rank_0/a.txt"));
  is_broken = false;
  uploader.fit_end(state, logger);
  EXPECT_TRUE(store->stat("kept/rank_0/a.txt"));
  const std::string version = store->stat("kept/rank_0/a.txt")->version;
  uploader.close(state, logger);
  EXPECT_EQ(store->stat("kept/rank_0/a.txt")->version, version);  // Not uploaded again.
}

// A state and a logger with only the uploader, as in a program's own loop.
struct ByHand : Uploader {
  ByHand() { state.run_name = "run"; }
  std::shared_ptr<RemoteUploaderDownloader> made(RemoteUploaderDownloaderOptions with = {}) {
    if (with.store == nullptr) with.store = store;
    auto uploader = std::make_shared<RemoteUploaderDownloader>(std::move(with));
    uploader->init(state, logger);
    logger.add(uploader);
    return uploader;
  }
  std::string file(const std::string& text) {
    write_file(folder / "file", text);
    return folder / "file";
  }
  std::string text_of(const std::string& name) {
    return std::string(as_text(read_all(*store->open(name)).view));
  }

  State state;
  Logger logger{state};
};

// T116, T120: the last content wins, and the given file may change at once.
TEST_F(ByHand, UploadsWhatTheFileHeldAndDownloadsIt) {
  const auto uploader = made({.upload_staging_folder = folder.path()});
  for (int i = 0; i < 10; ++i) {
    logger.upload_file({.remote_file_name = "{run_name}/a.txt",
                        .file_path = file(std::to_string(i)),
                        .overwrite = true});
  }
  file("changed");
  uploader->fit_end(state, logger);
  EXPECT_EQ(text_of("run/a.txt"), "9");
  EXPECT_EQ(uploader->get_uri_for_file("run/a.txt"), "run/a.txt");
  uploader->download_file("run/a.txt", folder / "down/a.txt");
  EXPECT_EQ(read_file(folder / "down/a.txt"), "9");
  EXPECT_THROW(uploader->download_file("run/a.txt", folder / "down/a.txt"), AlreadyExistsError);
  uploader->close(state, logger);
  EXPECT_THAT(list_names(*local_store(), folder.path()), ElementsAre("down", "file"));
}

// T117, T118
TEST_F(ByHand, WithoutOverwriteASecondOneIsRefused) {
  const auto uploader = made();
  logger.upload_file({.remote_file_name = "a", .file_path = file("1")});
  uploader->fit_end(state, logger);
  logger.upload_file({.remote_file_name = "a", .file_path = file("2")});
  EXPECT_THAT(message_of<AlreadyExistsError>([&] { uploader->fit_end(state, logger); }),
              HasSubstr("exists already"));
  uploader->close(state, logger);
  EXPECT_EQ(text_of("a"), "1");
}

// T121, T123: the next event throws the error itself, and nothing hangs.
TEST_F(ByHand, AFailedUploadIsToldAndNamed) {
  store = std::make_shared<WatchedStore>(
      store, StoreHooks{.before = [](StoreCall call, const std::string& name) {
        if (call == StoreCall::kCommit && name == "a") throw StorageError(name + ": 403", 403);
      }});
  const auto uploader = made();
  logger.add(log);
  logger.upload_file({.remote_file_name = "a", .file_path = file("1")});
  EXPECT_THAT(message_of<StorageError>([&] {
                for (;;)
                  uploader->batch_end(state, logger);
              }),
              HasSubstr("uploading a: a: 403"));
  EXPECT_NO_THROW(uploader->epoch_end(state, logger));
  uploader->close(state, logger);
  EXPECT_THAT(log->messages, Contains("warning: these objects were not uploaded: a"));
}

TEST_F(ByHand, WhatIsNotThereInTimeIsGivenUp) {
  store = std::make_shared<WatchedStore>(
      store, StoreHooks{.before = [](StoreCall call, const std::string& name) {
        if (call == StoreCall::kCommit && name == "a") throw StorageError("503", 503, true);
      }});
  const auto uploader = made({.num_attempts = 1000, .upload_timeout = std::chrono::seconds(0)});
  logger.add(log);
  logger.upload_file({.remote_file_name = "a", .file_path = file("1")});
  EXPECT_THAT(message_of<StorageError>([&] { uploader->fit_end(state, logger); }),
              HasSubstr("upload_timeout"));
  uploader->close(state, logger);
  EXPECT_THAT(log->messages, Contains("warning: these objects were not uploaded: a"));
}

// T122
TEST_F(ByHand, ImpossibleOptionsAreRefused) {
  EXPECT_THROW(RemoteUploaderDownloader({.bucket_uri = "magicloud://bucket"}), UnsupportedError);
  EXPECT_THROW(RemoteUploaderDownloader(RemoteUploaderDownloaderOptions{}), UsageError);
  EXPECT_THROW(RemoteUploaderDownloader({.num_concurrent_uploads = 0, .store = store}), UsageError);
  EXPECT_THROW(RemoteUploaderDownloader({.num_attempts = 0, .store = store}), UsageError);
  RemoteUploaderDownloader early({.store = store});
  EXPECT_THAT(message_of([&] { early.upload_file({.remote_file_name = "a", .file_path = "b"}); }),
              HasSubstr("the run name is not set"));
  EXPECT_THROW(LogRecorder().download_file("a", "b"), UnsupportedError);
}

}  // namespace
}  // namespace cairn
