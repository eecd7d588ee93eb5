// CheckpointSaver: when it saves, under which names, and which checkpoints it keeps.
#include "cairn/callbacks/checkpoint_saver.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/environment_variable.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::EnvironmentVariable;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogRecorder;
using testing::read_file;
using ::testing::SizeIs;
using testing::TempFolder;
using testing::tiny_loader;
using testing::tiny_options;
using ::testing::UnorderedElementsAre;
using testing::write_file;

struct CheckpointSaverTest : ::testing::Test {
  // 5 batches of 2 samples per epoch.
  TrainerOptions options(const std::string& max_duration = "2ep") {
    TrainerOptions made = tiny_options();
    made.max_duration = max_duration;
    made.run_name = "run";
    made.save_folder = folder / "ckpt";
    return made;
  }

  std::vector<std::string> files(const std::string& name = "ckpt") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder / name)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  // The number of saves in a run.
  std::size_t saves(Interval interval, const std::string& max_duration) {
    TrainerOptions made = options(max_duration);
    made.save_interval = std::move(interval);
    made.save_overwrite = true;
    Trainer trainer(std::move(made));
    trainer.fit();
    return trainer.saved_checkpoints().size();
  }

  TempFolder folder;
};

// --- Arguments -----------------------------------------------------------------------------------

// T1, T2, T3, T12: options are kept as given, without formatting. The defaults are Composer's.
TEST(CheckpointSaverOptionsTest, AreKeptAsGiven) {
  const CheckpointSaver defaults;
  EXPECT_EQ(defaults.name(), "CheckpointSaver");
  EXPECT_EQ(defaults.options().folder, "{run_name}/checkpoints");
  EXPECT_EQ(defaults.options().filename, "ep{epoch}-ba{batch}-rank{rank}.pt");
  EXPECT_EQ(defaults.options().latest_filename, "latest-rank{rank}.pt");
  EXPECT_EQ(defaults.options().num_checkpoints_to_keep, std::nullopt);
  EXPECT_FALSE(defaults.options().overwrite);
  EXPECT_FALSE(defaults.options().weights_only);
  const CheckpointSaver none({.folder = "{run_name}/x", .latest_filename = std::nullopt});
  EXPECT_EQ(none.options().folder, "{run_name}/x");
  EXPECT_EQ(none.options().latest_filename, std::nullopt);
}

// T4, T10
TEST(CheckpointSaverOptionsTest, OtherExtensionsAreRefusedByName) {
  for (const std::string name :
       {"foo.pt.unknown_compressor", "foo.tar.unknownalgorithm", "foo.gz"}) {
    try {
      const CheckpointSaver saver({.filename = name});
      FAIL() << name << " was accepted";
    } catch (const UsageError& e) {
      EXPECT_THAT(e.what(), HasSubstr(name));
    }
  }
  EXPECT_NO_THROW(CheckpointSaver({.filename = "ep{epoch}.tar.gz"}));
  EXPECT_NO_THROW(CheckpointSaver({.filename = "ep{epoch}.pt.zst"}));
  EXPECT_NO_THROW(CheckpointSaver({.filename = "ep{epoch}"}));
  EXPECT_NO_THROW(CheckpointSaver({.filename = "at-{total_wct:.0f}.pt"}));
}

// T5
TEST(CheckpointSaverOptionsTest, AMissingCompressorIsNamedAtConstruction) {
  const EnvironmentVariable path("PATH", "/nowhere");
  try {
    const CheckpointSaver saver({.filename = "foo.pt.lzo"});
    ADD_FAILURE() << "was accepted";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("program lzop"));
  }
}

// T6
TEST(CheckpointSaverOptionsTest, UrisAreRefusedByScheme) {
  for (const std::string scheme : {"gcs", "ftp", "hdfs"}) {
    try {
      const CheckpointSaver saver({.folder = scheme + "://bucket/{run_name}"});
      FAIL() << scheme << " was accepted";
    } catch (const UnsupportedError& e) {
      EXPECT_THAT(e.what(), HasSubstr(scheme + "://"));
    }
  }
}

TEST(CheckpointSaverOptionsTest, ImpossibleOnesAreUsageErrors) {
  EXPECT_THROW(CheckpointSaver({.num_checkpoints_to_keep = -2}), UsageError);
  EXPECT_THROW(CheckpointSaver({.max_pending_saves = 0}), UsageError);
  EXPECT_THROW(CheckpointSaver({.save_interval = "1.5ep"}), UsageError);
  EXPECT_THROW(CheckpointSaver({.folder = "run-{epoch}"}), UsageError);
  EXPECT_THROW(CheckpointSaver({.filename = "{bach}.pt"}), UsageError);
}

// --- When ----------------------------------------------------------------------------------------

// T19. A run's name can make the names of the file and of the latest pointer equal.
TEST_F(CheckpointSaverTest, ARunThatDoesNotBeginLeavesItUsable) {
  const auto saver = std::make_shared<CheckpointSaver>(CheckpointSaverOptions{
      .folder = folder / "ckpt", .filename = "{run_name}.pt", .latest_filename = "run.pt"});
  TrainerOptions made = tiny_options();
  made.run_name = "run";
  made.callbacks = {saver};
  EXPECT_THROW(Trainer trainer(std::move(made)), UsageError);
  EXPECT_EQ(saver->options().filename, "{run_name}.pt");
  EXPECT_THAT(saver->saved_checkpoints(), IsEmpty());
}

TEST_F(CheckpointSaverTest, NumberOfSavesIsComposersForEachInterval) {
  EXPECT_EQ(saves(1, "5ep"), 5U);
  EXPECT_EQ(saves("2ep", "8ep"), 4U);
  EXPECT_EQ(saves("10ba", "8ep"), 4U);
  EXPECT_EQ(saves("0.25dur", "4ep"), 4U);
  EXPECT_EQ(saves("1ep", "4ep"), 4U);
  EXPECT_EQ(saves("5ba", "4ep"), 4U);
  EXPECT_EQ(saves("5ba", "10ba"), 2U);
  EXPECT_EQ(saves("0.35dur", "4ep"), 3U);
  EXPECT_EQ(saves("0.01dur", "100ba"), 100U);
  EXPECT_EQ(saves("0.10dur", "70sp"), 10U);
  EXPECT_EQ(saves("0.05dur", "80sp"), 20U);
}

// T16
TEST_F(CheckpointSaverTest, SampleIntervalsFireWhenAMultipleIsCrossed) {
  EXPECT_EQ(saves("1sp", "1ep"), 5U);
  EXPECT_EQ(saves("4sp", "1ep"), 3U);  // 4, 8 and the end.
  EXPECT_EQ(saves("5sp", "1ep"), 2U);  // 6, and 10 at the end.
}

// T15
TEST_F(CheckpointSaverTest, TokenIntervalsFireWhenAMultipleIsCrossed) {
  const auto saves_of = [&](Interval interval) {
    TrainerOptions made = options("1ep");
    made.train_dataloader.get_num_tokens_in_batch = [](const Batch&) { return 20; };
    made.save_interval = std::move(interval);
    made.save_overwrite = true;
    Trainer trainer(std::move(made));
    trainer.fit();
    return trainer.saved_checkpoints().size();
  };
  EXPECT_EQ(saves_of("1tok"), 5U);
  EXPECT_EQ(saves_of("40tok"), 3U);
  EXPECT_EQ(saves_of("65tok"), 2U);  // 80, and the end at 100.
}

TEST_F(CheckpointSaverTest, FunctionDecidesAtEachCheckpointEvent) {
  std::vector<std::string> events;
  EXPECT_EQ(saves(
                [&events](const State& state, Event event) {
                  events.emplace_back(name(event));
                  return state.timestamp.batch == 2;
                },
                "1ep"),
            1U);
  EXPECT_THAT(events, SizeIs(6));
  EXPECT_THAT(events, Contains("epoch_checkpoint"));
}

TEST_F(CheckpointSaverTest, OneBatchIsSavedOnceAlsoAtTheEndOfTraining) {
  TrainerOptions made = options();
  made.save_interval = "5ba";
  Trainer trainer(std::move(made));
  trainer.fit();
  // As in Composer, the event of the end of a batch comes before the epoch is counted.
  EXPECT_THAT(files(),
              UnorderedElementsAre("ep0-ba5-rank0.pt", "ep1-ba10-rank0.pt", "latest-rank0.pt"));
}

// --- Names and contents --------------------------------------------------------------------------

// T7
TEST_F(CheckpointSaverTest, FoldersAndNamesMayHaveVariables) {
  TrainerOptions made = options("1ep");
  made.save_folder = folder / "{run_name}/ckpt";
  made.save_filename = "{run_name}/ep{epoch:03d}.pt";
  made.save_latest_filename = "links/newest.pt";
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_THAT(trainer.saved_checkpoints(), ElementsAre(folder / "run/ckpt/run/ep001.pt"));
  const auto timestamps = trainer.all_saved_checkpoints_to_timestamp();
  ASSERT_EQ(timestamps.size(), 1U);
  EXPECT_EQ(timestamps.at(folder / "run/ckpt/run/ep001.pt").epoch, 1);
  EXPECT_EQ(std::filesystem::read_symlink(folder / "run/ckpt/links/newest.pt"), "../run/ep001.pt");
  EXPECT_EQ(load(folder / "run/ckpt/links/newest.pt"), load(folder / "run/ckpt/run/ep001.pt"));
}

TEST_F(CheckpointSaverTest, CheckpointNamesItselfAndSaysWhatItIs) {
  Trainer trainer(options("1ep"));
  trainer.fit();
  const std::string path = folder / "ckpt/ep1-ba5-rank0.pt";
  const Value value = load(path);
  const Value* own =
      find_path(value, "state/callbacks/CheckpointSaver/all_saved_checkpoints_to_timestamp/0/0");
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(own->as_str(), path);
  const auto report = verify(path);
  ASSERT_TRUE(report.info.has_value());
  EXPECT_EQ(report.info->kind, "full");
  EXPECT_EQ(report.info->run_name, "run");
  EXPECT_EQ(report.info->timestamp->batch, 5);
}

TEST_F(CheckpointSaverTest, WeightsAndIgnoredKeysAreLeftOut) {
  TrainerOptions made = options("1ep");
  made.save_weights_only = true;
  made.save_ignore_keys = {"state/model/first.*", "state/nothing"};
  auto log = std::make_shared<LogRecorder>();
  made.loggers = {log};
  Trainer trainer(std::move(made));
  trainer.fit();
  const Value value = load(folder / "ckpt/ep1-ba5-rank0.pt");
  EXPECT_EQ(value.find("rng"), nullptr);
  EXPECT_EQ(find_path(value, "state/model/first.weight"), nullptr);
  EXPECT_NE(find_path(value, "state/model/second.weight"), nullptr);
  EXPECT_THAT(log->messages, Contains(HasSubstr("state/nothing")));
}

TEST_F(CheckpointSaverTest, SnapshotIsOfTheMomentAlsoWhenTrainingGoesOn) {
  const auto run = [&](bool async, const std::string& where) {
    TrainerOptions made = options("2ep");
    made.save_folder = folder / where;
    made.save_interval = "1ba";
    made.save_async = async;
    Trainer trainer(std::move(made));
    trainer.fit();
  };
  run(true, "async");
  run(false, "sync");
  for (int batch = 1; batch <= 10; ++batch) {
    const std::string name =
        "/ep" + std::to_string(batch / 6) + "-ba" + std::to_string(batch) + "-rank0.pt";
    for (const char* key : {"model", "optimizers"}) {
      EXPECT_EQ(load((folder / "async") + name).at("state").at(key),
                load((folder / "sync") + name).at("state").at(key))
          << name << " " << key;
    }
  }
}

TEST_F(CheckpointSaverTest, SavesAreReportedWithSizeAndTime) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = options("1ep");
  made.loggers = {log};
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_THAT(log->messages,
              Contains(AllOf(HasSubstr("saved " + (folder / "ckpt/ep1-ba5-rank0.pt")),
                             HasSubstr("KiB"), HasSubstr(" s"))));
}

// T20: if the callbacks contain savers, the Trainer makes none, and the first saver is the
// reference.
TEST_F(CheckpointSaverTest, SeveralSaversHaveTheirOwnFoldersIntervalsAndState) {
  TrainerOptions made = options("2ep");
  made.callbacks = {
      CheckpointSaver({.folder = folder / "full", .save_interval = "1ep"}),
      CheckpointSaver({.folder = folder / "weights", .save_interval = "4ba", .weights_only = true}),
  };
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_FALSE(std::filesystem::exists(folder / "ckpt"));
  EXPECT_THAT(trainer.saved_checkpoints(), SizeIs(2));
  EXPECT_THAT(files("weights"), UnorderedElementsAre("ep0-ba4-rank0.pt", "ep1-ba8-rank0.pt",
                                                     "ep2-ba10-rank0.pt", "latest-rank0.pt"));
  const Value callbacks = load(folder / "full/ep2-ba10-rank0.pt").at("state").at("callbacks");
  const auto count = [&](const char* key) {
    return callbacks.at(key).at("all_saved_checkpoints_to_timestamp").as_items().size();
  };
  EXPECT_EQ(count("CheckpointSaver"), 2U);
  EXPECT_EQ(count("CheckpointSaver-1"), 2U) << "its turn for batch 10 comes after this save";
}

// T9, T11
TEST_F(CheckpointSaverTest, ExtensionsChooseContainerAndCompression) {
  const std::vector<std::string> extensions = {".pt", ".tar", ".tar.gz", ".pt.lz4"};
  TrainerOptions made = options("1ep");
  for (const std::string& extension : extensions) {
    made.callbacks.push_back(CheckpointSaver({.folder = folder / "ckpt",
                                              .filename = "ep{epoch}" + extension,
                                              .latest_filename = "latest" + extension,
                                              .weights_only = true}));
  }
  Trainer trainer(std::move(made));
  trainer.fit();
  const Value expected = state_dict(trainer.state().model->module());
  std::vector<std::uintmax_t> sizes;
  for (const std::string& extension : extensions) {
    EXPECT_EQ(load(folder / ("ckpt/latest" + extension)).at("state").at("model"), expected);
    sizes.push_back(std::filesystem::file_size(folder / ("ckpt/ep1" + extension)));
  }
  EXPECT_GT(sizes[1], sizes[0]) << "a tar around the .pt";
  EXPECT_LT(sizes[2], sizes[1]) << "gzip around the tar";
  EXPECT_LT(sizes[3], sizes[0]) << "lz4 around the .pt";
}

// T29, T30
TEST_F(CheckpointSaverTest, SaveToTheSaveFolderWorksBeforeTraining) {
  Trainer trainer(options());
  trainer.save_checkpoint_to_save_folder();
  EXPECT_THAT(trainer.saved_checkpoints(), ElementsAre(folder / "ckpt/ep0-ba0-rank0.pt"));
  EXPECT_EQ(load(folder / "ckpt/ep0-ba0-rank0.pt").at("state").at("model"),
            state_dict(trainer.state().model->module()));
  Trainer without(tiny_options());
  EXPECT_THROW(without.save_checkpoint_to_save_folder(), UsageError);
  EXPECT_THAT(without.saved_checkpoints(), IsEmpty());
}

TEST_F(CheckpointSaverTest, WorksInAForeignLoop) {
  Trainer trainer(tiny_options());  // Only for its State.
  CheckpointSaver saver({.folder = folder / "own", .num_checkpoints_to_keep = 2});
  for (int i = 0; i < 4; ++i) {
    trainer.state().timestamp = trainer.state().timestamp.to_next_batch(2, 0, {});
    saver.save(trainer.state(), trainer.logger());
  }
  saver.wait();
  EXPECT_THAT(files("own"),
              UnorderedElementsAre("ep0-ba3-rank0.pt", "ep0-ba4-rank0.pt", "latest-rank0.pt"));
}

// --- Conflicts -----------------------------------------------------------------------------------

// T24, T25, T26
TEST_F(CheckpointSaverTest, FilesOfTheFutureAreAConflictUnlessOverwriteIsSet) {
  {
    Trainer first(options("2ep"));
    first.fit();
  }
  TrainerOptions again = options("2ep");
  again.load_path = folder / "ckpt/ep1-ba5-rank0.pt";
  Trainer refused(again);
  try {
    refused.fit();
    FAIL() << "no error";
  } catch (const AlreadyExistsError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("ep2-ba10-rank0.pt"), HasSubstr("save_overwrite")));
  }
  again.model = options().model;
  again.save_overwrite = true;
  Trainer allowed(again);
  EXPECT_NO_THROW(allowed.fit());
  for (const bool overwrite : {false, true}) {
    TrainerOptions newest = options("11ba");
    newest.load_path = folder / "ckpt/ep2-ba10-rank0.pt";
    newest.save_overwrite = overwrite;
    Trainer trainer(std::move(newest));
    EXPECT_NO_THROW(trainer.fit());
    std::filesystem::remove(folder / "ckpt/ep2-ba11-rank0.pt");
  }
}

TEST_F(CheckpointSaverTest, DamagedFileOfTheFutureIsNoConflictAndIsPutAside) {
  std::filesystem::create_directories(folder / "ckpt");
  write_file(folder / "ckpt/ep1-ba5-rank0.pt", "torn");
  Trainer trainer(options("1ep"));
  EXPECT_NO_THROW(trainer.fit());
  EXPECT_EQ(read_file(folder / "ckpt/ep1-ba5-rank0.pt.damaged"), "torn");
  EXPECT_TRUE(verify(folder / "ckpt/ep1-ba5-rank0.pt").ok());
}

// A file that cannot be read now is not damaged: a good file is neither skipped nor renamed.
TEST_F(CheckpointSaverTest, WhatCannotBeReadNowIsNeverTakenForDamaged) {
  const auto compressed = [this] {
    TrainerOptions made = options("2ep");
    made.save_filename = "ep{epoch}-ba{batch}-rank{rank}.pt.gz";
    made.save_latest_filename = "latest-rank{rank}.pt.gz";
    return made;
  };
  {
    Trainer first(compressed());
    first.fit();
  }
  const auto before = files();
  const std::string bytes = read_file(folder / "ckpt/ep2-ba10-rank0.pt.gz");
  TrainerOptions again = compressed();
  again.load_path = folder / "ckpt/ep1-ba5-rank0.pt.gz";
  Trainer trainer(std::move(again));
  {
    const EnvironmentVariable no_room("TMPDIR", (folder / "missing").c_str());
    EXPECT_THROW(trainer.fit(), StorageError);
  }
  EXPECT_THAT(files(), ::testing::UnorderedElementsAreArray(before));
  EXPECT_EQ(read_file(folder / "ckpt/ep2-ba10-rank0.pt.gz"), bytes);
}

// --- Rotation ------------------------------------------------------------------------------------

// T27
TEST_F(CheckpointSaverTest, KeepsTheNewest) {
  for (const int keep : {-1, 0, 1, 2, 3, 4}) {
    for (const bool async : {false, true}) {
      const std::string where = "keep" + std::to_string(keep) + (async ? "a" : "s");
      TrainerOptions made = options("6ep");
      made.save_folder = folder / where;
      made.save_num_checkpoints_to_keep = keep;
      made.save_async = async;
      Trainer trainer(std::move(made));
      trainer.fit();
      const std::size_t expected = keep < 0 ? 6 : static_cast<std::size_t>(keep);
      EXPECT_THAT(files(where), SizeIs(expected == 0 ? 0 : expected + 1)) << where;
      EXPECT_THAT(trainer.saved_checkpoints(), SizeIs(expected)) << where;
      if (expected > 0) {
        EXPECT_EQ(std::filesystem::read_symlink((folder / where) + "/latest-rank0.pt"),
                  "ep6-ba30-rank0.pt");
      }
    }
  }
}

TEST_F(CheckpointSaverTest, ConstantNameIsReplacedNeverDeleted) {
  TrainerOptions made = options("3ep");
  made.save_filename = "last.pt";
  made.save_num_checkpoints_to_keep = 1;
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_THAT(files(), UnorderedElementsAre("last.pt", "latest-rank0.pt"));
  EXPECT_EQ(verify(folder / "ckpt/last.pt").info->timestamp->epoch, 3);
}

// Unlike here, Composer forgets the files that were saved before a resume.
TEST_F(CheckpointSaverTest, FilesOfTheRunBeforeAResumeCount) {
  TrainerOptions made = options("3ep");
  made.save_num_checkpoints_to_keep = 2;
  {
    Trainer first(made);
    first.fit();
  }
  made.model = options().model;
  made.max_duration = "4ep";
  made.load_path = folder / "ckpt/ep3-ba15-rank0.pt";
  Trainer resumed(std::move(made));
  resumed.fit();
  EXPECT_THAT(files(),
              UnorderedElementsAre("ep3-ba15-rank0.pt", "ep4-ba20-rank0.pt", "latest-rank0.pt"));
  EXPECT_THAT(resumed.saved_checkpoints(),
              ElementsAre(folder / "ckpt/ep3-ba15-rank0.pt", folder / "ckpt/ep4-ba20-rank0.pt"));
}

TEST_F(CheckpointSaverTest, FilesOfAnotherFolderAreNotTouched) {
  {
    Trainer first(options("2ep"));
    first.fit();
  }
  TrainerOptions fork = options("4ep");
  fork.save_folder = folder / "fork";
  fork.save_num_checkpoints_to_keep = 1;
  fork.load_path = folder / "ckpt/ep2-ba10-rank0.pt";
  Trainer trainer(std::move(fork));
  trainer.fit();
  EXPECT_THAT(files(), SizeIs(3));
  EXPECT_THAT(files("fork"), UnorderedElementsAre("ep4-ba20-rank0.pt", "latest-rank0.pt"));
}

TEST_F(CheckpointSaverTest, FileThatSomebodyRemovedDoesNotStopTraining) {
  TrainerOptions made = options("4ep");
  made.save_num_checkpoints_to_keep = 1;
  made.save_async = false;
  made.callbacks = testing::CallAt(Event::kEpochStart, [&](State& state) {
    std::filesystem::remove(folder / ("ckpt/ep" + std::to_string(state.timestamp.epoch) + "-ba" +
                                      std::to_string(state.timestamp.batch) + "-rank0.pt"));
  });
  Trainer trainer(std::move(made));
  EXPECT_NO_THROW(trainer.fit());
  EXPECT_THAT(trainer.saved_checkpoints(), ElementsAre(folder / "ckpt/ep4-ba20-rank0.pt"));
}

TEST_F(CheckpointSaverTest, LeftoversOfAKilledSaveAreRemovedAtTheStart) {
  std::filesystem::create_directories(folder / "ckpt");
  write_file(folder / "ckpt/.cairn-tmp-ep1-ba5-rank0.pt-0123456789abcdef", "half");
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = options();
  made.loggers = {log};
  const Trainer trainer(std::move(made));
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_THAT(log->messages, Contains(HasSubstr("left by a save that was killed")));
}

TEST_F(CheckpointSaverTest, LeftoversInFoldersOfTheFormatAreRemovedToo) {
  std::filesystem::create_directories(folder / "ckpt/ep3");
  write_file(folder / "ckpt/ep3/.cairn-tmp-ba5.pt-0123456789abcdef", "half");
  TrainerOptions made = options();
  made.save_filename = "ep{epoch}/ba{batch}.pt";
  const Trainer trainer(std::move(made));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "ckpt/ep3"));
}

// --- Errors --------------------------------------------------------------------------------------

TEST_F(CheckpointSaverTest, ErrorOfABackgroundSaveIsThrownByFit) {
  TrainerOptions made = options("2ep");
  made.save_filename = "sub/ep{epoch}.pt";
  made.callbacks = testing::CallAt(Event::kFitStart, [&](State& /*state*/) {
    write_file(folder / "ckpt/sub", "a file where a folder should be");
  });
  Trainer trainer(std::move(made));
  EXPECT_THROW(trainer.fit(), Error);
  EXPECT_THAT(trainer.saved_checkpoints(), IsEmpty());
}

TEST_F(CheckpointSaverTest, SavesWorkAgainAfterAnError) {
  Trainer trainer(tiny_options());
  CheckpointSaver saver({.folder = folder / "own", .filename = "{batch}/x.pt"});
  write_file(folder / "own-is-not-there-yet", "");
  std::filesystem::create_directories(folder / "own");
  write_file(folder / "own/0", "in the way");
  saver.save(trainer.state(), trainer.logger());
  EXPECT_THROW(saver.wait(), Error);
  EXPECT_NO_THROW(saver.wait());
  std::filesystem::remove(folder / "own/0");
  saver.save(trainer.state(), trainer.logger());
  EXPECT_THAT(saver.saved_checkpoints(), ElementsAre(folder / "own/0/x.pt"));
}

// --- State ---------------------------------------------------------------------------------------

// T28
TEST(CheckpointSaverStateTest, RoundTripsPathsAndTimestamps) {
  CheckpointSaver saver;
  EXPECT_EQ(saver.state_dict(), Value(Dict{{"all_saved_checkpoints_to_timestamp", List{}}}));
  saver.load_state_dict(Dict());
  EXPECT_EQ(saver.state_dict(), Value(Dict{{"all_saved_checkpoints_to_timestamp", List{}}}));
  Timestamp timestamp;
  timestamp.iteration = timestamp.epoch = 1;
  timestamp.batch = 2;
  const Value state = Dict{{"all_saved_checkpoints_to_timestamp",
                            List{Tuple{{"ep1-ba2-rank0.pt", timestamp.state_dict()}}}}};
  saver.load_state_dict(state);
  EXPECT_EQ(saver.state_dict(), state);
}

TEST(CheckpointSaverStateTest, MalformedStateIsRefusedAndChangesNothing) {
  CheckpointSaver saver;
  const Value before = saver.state_dict();
  EXPECT_THROW(
      saver.load_state_dict(Dict{{"all_saved_checkpoints_to_timestamp", List{Tuple{{"a", 1}}}}}),
      Error);
  EXPECT_EQ(saver.state_dict(), before);
}

TEST_F(CheckpointSaverTest, FilesThatAreGoneAreForgotten) {
  {
    Trainer first(options("2ep"));
    first.fit();
  }
  std::filesystem::remove(folder / "ckpt/ep1-ba5-rank0.pt");
  TrainerOptions made = options("3ep");
  made.load_path = folder / "ckpt/ep2-ba10-rank0.pt";
  Trainer trainer(std::move(made));
  trainer.fit();
  const Value value = load(folder / "ckpt/ep3-ba15-rank0.pt");
  const Value* list =
      find_path(value, "state/callbacks/CheckpointSaver/all_saved_checkpoints_to_timestamp");
  EXPECT_THAT(list->as_items(), SizeIs(2));
}

}  // namespace
}  // namespace cairn
