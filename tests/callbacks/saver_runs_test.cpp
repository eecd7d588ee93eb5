// CheckpointSaver and the files of other runs: a saver that a second Trainer uses, and folders into
// which another run has saved.
#include <gmock/gmock.h>

#include <filesystem>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::read_file;
using testing::TempFolder;
using testing::tiny_options;
using ::testing::UnorderedElementsAre;
using testing::write_file;

struct SaverRunsTest : ::testing::Test {
  // 5 batches per epoch.
  TrainerOptions options(const std::string& run_name, const std::string& max_duration) {
    TrainerOptions made = tiny_options();
    made.max_duration = max_duration;
    made.run_name = run_name;
    return made;
  }

  std::vector<std::string> files(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder / name)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TempFolder folder;
};

// --- One saver for several Trainers --------------------------------------------------------------

TEST_F(SaverRunsTest, ASecondTrainersSavesRemoveNothingOfTheFirst) {
  const auto saver = std::make_shared<CheckpointSaver>(
      CheckpointSaverOptions{.folder = folder / "{run_name}", .num_checkpoints_to_keep = 1});
  for (const char* run : {"one", "two"}) {
    TrainerOptions made = options(run, "2ep");
    made.callbacks.push_back(saver);
    Trainer trainer(std::move(made));
    trainer.fit();
    EXPECT_EQ(trainer.saved_checkpoints().size(), 1) << run;
    trainer.fit({.duration = "1ep"});  // For the same Trainer, its earlier saves count.
  }
  for (const char* run : {"one", "two"}) {
    EXPECT_THAT(files(run), UnorderedElementsAre("ep3-ba15-rank0.pt", "latest-rank0.pt")) << run;
  }
}

TEST_F(SaverRunsTest, OnlyTheTrainerWithAutoresumeMayRewriteItsOwnFiles) {
  const auto saver =
      std::make_shared<CheckpointSaver>(CheckpointSaverOptions{.folder = folder / "ckpt"});
  TrainerOptions made = options("run", "2ep");
  made.callbacks.push_back(saver);
  made.autoresume = true;
  {
    Trainer first(made);
    first.fit();
  }
  TrainerOptions again = options("run", "2ep");
  again.callbacks.push_back(saver);
  again.load_path = folder / "ckpt/ep1-ba5-rank0.pt";
  Trainer second(std::move(again));
  EXPECT_THROW(second.fit(), AlreadyExistsError);
}

// If ranks save together, the checkpoint is a folder with another name.
TEST_F(SaverRunsTest, ASecondTrainerMaySaveInAnotherWay) {
  const auto saver = std::make_shared<CheckpointSaver>(
      CheckpointSaverOptions{.folder = folder / "{run_name}", .latest_filename = std::nullopt});
  for (const bool is_sharded : {true, false}) {
    TrainerOptions made = options(is_sharded ? "sharded" : "full", "1ep");
    made.callbacks.push_back(saver);
    if (is_sharded) {
      made.parallelism_config = ParallelismConfig{.fsdp = FSDPConfig{.state_dict_type = "sharded"}};
    }
    Trainer trainer(std::move(made));
    trainer.fit();
    trainer.close();
  }
  EXPECT_THAT(files("sharded"), ElementsAre("ep1-ba5"));
  EXPECT_THAT(files("full"), ElementsAre("ep1-ba5-rank0.pt"));
  EXPECT_TRUE(verify(folder / "full/ep1-ba5-rank0.pt").ok());
}

TEST_F(SaverRunsTest, TwoWhoseFoldersWouldHaveOneNameAreRefused) {
  TrainerOptions made = options("run", "1ep");
  made.parallelism_config = ParallelismConfig{.fsdp = FSDPConfig{.state_dict_type = "sharded"}};
  made.callbacks = {
      CheckpointSaver({.folder = folder / "ckpt", .filename = "ep{epoch}-ba{batch}.pt"}),
      CheckpointSaver({.folder = folder / "ckpt",
                       .filename = "weights-ba{batch}.pt",
                       .latest_filename = std::nullopt,
                       .weights_only = true})};
  EXPECT_THAT(testing::message_of<UsageError>([&] { Trainer trainer(std::move(made)); }),
              HasSubstr("would write one path"));
}

TEST_F(SaverRunsTest, WeightsThatAreAskedForDoNotReplaceTheSaversFolder) {
  TrainerOptions made = options("run", "1ep");
  made.parallelism_config = ParallelismConfig{.fsdp = FSDPConfig{.state_dict_type = "sharded"}};
  made.save_folder = folder / "ckpt";
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_THROW(trainer.save_checkpoint(folder / "ckpt/final.pt", true), AlreadyExistsError);
  EXPECT_THAT(trainer.saved_checkpoints(), ElementsAre(HasSubstr("ep1-ba5")));
  EXPECT_TRUE(load(folder / "ckpt/ep1-ba5").at("state").find("optimizers") != nullptr);
  EXPECT_NO_THROW(trainer.save_checkpoint(folder / "weights/final.pt", true));
  EXPECT_NO_THROW(trainer.save_checkpoint(folder / "weights/final.pt", true));
}

// --- Saved by another run meanwhile --------------------------------------------------------------

// This run's folder was moved away, and another run now uses the same names.
TEST_F(SaverRunsTest, WhatAnotherRunSavedUnderNamesOfThisOneIsNotRemoved) {
  const auto saving = [&](const char* run, const char* max_duration) {
    TrainerOptions made = options(run, max_duration);
    made.save_folder = folder / "ckpt";
    made.save_num_checkpoints_to_keep = 2;
    return made;
  };
  Trainer(saving("a", "3ep")).fit();
  std::filesystem::rename(folder / "ckpt", folder / "moved");
  Trainer(saving("b", "2ep")).fit();
  const std::string bytes = read_file(folder / "ckpt/ep2-ba10-rank0.pt");
  TrainerOptions again = saving("a", "6ep");
  again.load_path = folder / "moved/latest-rank0.pt";
  Trainer resumed(std::move(again));
  resumed.fit();
  EXPECT_THAT(files("ckpt"),
              UnorderedElementsAre("ep1-ba5-rank0.pt", "ep2-ba10-rank0.pt", "ep5-ba25-rank0.pt",
                                   "ep6-ba30-rank0.pt", "latest-rank0.pt"));
  EXPECT_EQ(read_file(folder / "ckpt/ep2-ba10-rank0.pt"), bytes);
  EXPECT_THAT(resumed.saved_checkpoints(),
              ElementsAre(folder / "ckpt/ep5-ba25-rank0.pt", folder / "ckpt/ep6-ba30-rank0.pt"));
}

TEST_F(SaverRunsTest, ASaveOnRequestBeforeTrainingReplacesNothingOfAnotherRun) {
  const auto saving = [&](const char* run) {
    TrainerOptions made = options(run, "1ep");
    made.save_folder = folder / "ckpt";
    return made;
  };
  const std::string path = folder / "ckpt/ep0-ba0-rank0.pt";
  const auto save_before_training = [](TrainerOptions made) {
    Trainer trainer(std::move(made));
    trainer.save_checkpoint_to_save_folder();
    // Replaces the save that this Trainer made of this batch.
    trainer.save_checkpoint_to_save_folder();
    trainer.saved_checkpoints();
  };
  save_before_training(saving("one"));
  const std::string bytes = read_file(path);
  try {
    save_before_training(saving("two"));
    ADD_FAILURE() << "no error";
  } catch (const AlreadyExistsError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr(path), HasSubstr("of the run \"one\""),
                                HasSubstr("set save_overwrite")));
  }
  EXPECT_EQ(read_file(path), bytes);
  EXPECT_NO_THROW(save_before_training(saving("one")));
  TrainerOptions may = saving("two");
  may.save_overwrite = true;
  EXPECT_NO_THROW(save_before_training(std::move(may)));
  EXPECT_EQ(verify(path).info->run_name, "two");
}

TEST_F(SaverRunsTest, ASaveOnRequestPutsAsideWhatNobodyCanGoOnFrom) {
  std::filesystem::create_directories(folder / "ckpt");
  write_file(folder / "ckpt/ep0-ba0-rank0.pt", "torn");
  TrainerOptions made = options("run", "1ep");
  made.save_folder = folder / "ckpt";
  Trainer trainer(std::move(made));
  trainer.save_checkpoint_to_save_folder();
  EXPECT_EQ(trainer.saved_checkpoints().size(), 1);
  EXPECT_EQ(read_file(folder / "ckpt/ep0-ba0-rank0.pt.damaged"), "torn");
}

}  // namespace
}  // namespace cairn
