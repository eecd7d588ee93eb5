// Several CheckpointSavers, runs and starts share one folder. No run's files are lost. If the same
// command is started again, it resumes, or the first start says why it cannot.

#include <gmock/gmock.h>

#include <filesystem>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/killed_run.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::CallAt;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using ::testing::Not;
using testing::read_file;
using testing::run;
using testing::run_until;
using testing::TempFolder;
using testing::tiny_loader;
using testing::tiny_options;
using ::testing::UnorderedElementsAre;
using testing::write_file;

namespace fs = std::filesystem;

struct Resubmission : ::testing::Test {
  // 3 epochs of 5 batches.
  TrainerOptions options(HandleList<Callback> callbacks = {}) {
    TrainerOptions made = tiny_options({.dropout = 0.3});
    made.train_dataloader = tiny_loader(10, {.batch_size = 2, .shuffle = true, .num_workers = 0});
    made.max_duration = "3ep";
    made.run_name = "run";
    made.loggers = {log};
    made.autoresume = true;
    made.callbacks = std::move(callbacks);
    return made;
  }
  TrainerOptions saving(const std::string& where = "ckpt") {
    TrainerOptions made = options();
    made.save_folder = folder / where;
    made.save_interval = "1ba";
    return made;
  }

  static void construct(TrainerOptions made) { const Trainer trainer(std::move(made)); }

  std::vector<std::string> files(const std::string& where) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder / where)) {
      if (!entry.is_symlink()) names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  Value model_in(const std::string& path) const {
    return load(folder / path).at("state").at("model");
  }

  TempFolder folder;
  std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
};

// --- Savers with the same path -------------------------------------------------------------------

CheckpointSaver saver(const std::string& where, const std::string& filename,
                      std::optional<std::string> latest = std::nullopt, int keep = -1) {
  return CheckpointSaver({.folder = where,
                          .filename = filename,
                          .latest_filename = std::move(latest),
                          .num_checkpoints_to_keep = keep});
}

TEST_F(Resubmission, TwoSaversOfOnePathAreRefusedAndBothNamed) {
  const std::string message = message_of<UsageError>([&] {
    construct(
        options({CheckpointSaver({.folder = folder / "ckpt", .save_interval = "1ba"}),
                 CheckpointSaver(
                     {.folder = folder / "ckpt", .save_interval = "1ba", .weights_only = true})}));
  });
  EXPECT_THAT(message, AllOf(HasSubstr("of saver 1 (whole state, in " + (folder / "ckpt")),
                             HasSubstr("of saver 2 (weights, in " + (folder / "ckpt")),
                             HasSubstr((folder / "ckpt/ep1-ba1-rank0.pt"))));
  EXPECT_FALSE(fs::exists(folder / "ckpt"));
}

TEST_F(Resubmission, PathsAreComparedAsTheyWillBe) {
  fs::create_directories(folder / "ckpt/sub");
  fs::create_directory_symlink("ckpt", folder / "linked");
  const std::string ckpt = folder / "ckpt";
  const auto refusal = [&](CheckpointSaver one, CheckpointSaver other) {
    TrainerOptions made = options({std::move(one), std::move(other)});
    made.autoresume = false;
    try {
      construct(std::move(made));
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const auto is_refused = HasSubstr("two CheckpointSavers would write one path");
  EXPECT_THAT(refusal(saver(ckpt, "a.pt"), saver(folder / "linked", "a.pt")), is_refused);
  EXPECT_THAT(refusal(saver(ckpt, "a.pt"), saver(folder / "ckpt/./sub/..", "a.pt")), is_refused);
  EXPECT_THAT(refusal(saver(ckpt, "sub/a.pt"), saver(folder / "linked/sub", "a.pt")), is_refused);
  EXPECT_THAT(refusal(saver(ckpt, "{run_name}.pt"), saver(ckpt, "run.pt")), is_refused);
  EXPECT_THAT(refusal(saver(folder / "{run_name}", "a.pt"), saver(folder / "run", "a.pt")),
              is_refused);
  EXPECT_THAT(refusal(saver(ckpt, "{epoch}.pt"), saver(ckpt, "{batch}.pt")), is_refused);
  EXPECT_THAT(refusal(saver(ckpt, "a.pt", "latest"), saver(ckpt, "b.pt", "latest")),
              AllOf(is_refused, HasSubstr("the link \"latest\"")));
  EXPECT_THAT(refusal(saver(ckpt, "a.pt", "latest"), saver(ckpt, "latest")), is_refused);
  EXPECT_THAT(refusal(saver(fs::relative(ckpt), "a.pt"), saver(ckpt, "a.pt")), is_refused);

  EXPECT_THAT(refusal(CheckpointSaver({.folder = ckpt, .store = recycling_local_store()}),
                      CheckpointSaver({.folder = ckpt, .weights_only = true})),
              is_refused)
      << "two stores over one file system";

  EXPECT_EQ(refusal(saver(ckpt, "a.pt"), saver(folder / "other", "a.pt")), "none");
  EXPECT_EQ(refusal(saver(ckpt, "a.pt", "la"), saver(ckpt, "b.pt", "lb")), "none");
  EXPECT_EQ(refusal(saver(ckpt, "ep{epoch}.pt"), saver(ckpt, "ba{batch}.pt")), "none");
  EXPECT_EQ(refusal(saver(ckpt, "a.pt"), saver(ckpt, "a.pt", std::nullopt, 0)), "none")
      << "one that keeps nothing writes nothing";
}

TEST_F(Resubmission, ALinkIsNoCheckpointOfItsOwnSaver) {
  EXPECT_THAT(message_of<UsageError>([] { saver("ckpt", "a.pt", "a.pt"); }),
              HasSubstr("the link would replace the checkpoint"));
  EXPECT_THROW(saver("ckpt", "{epoch}.pt", "1.pt"), UsageError);
  const CheckpointSaver harmless = saver("ckpt", "{run_name}.pt", "run.pt");
  EXPECT_THAT(message_of<UsageError>(
                  [&] { construct(options({saver(folder / "ckpt", "{run_name}.pt", "run.pt")})); }),
              HasSubstr("the link would replace the checkpoint"));
}

TEST_F(Resubmission, OptionsOfTheTrainersOwnSaverAreNotPassedOverSilently) {
  TrainerOptions made = options({CheckpointSaver({.folder = folder / "mine"})});
  made.save_folder = folder / "ckpt";
  construct(std::move(made));
  EXPECT_THAT(log->messages, Contains(AllOf(HasSubstr("save_folder"), HasSubstr("not used"),
                                            HasSubstr(folder / "mine"))));
}

TEST_F(Resubmission, NamesAreCheckedWithTheRunsValuesAtTheStart) {
  TrainerOptions made = saving();
  made.save_filename = "{run_name}";
  made.run_name = "best.zstd";
  EXPECT_THAT(message_of<UsageError>([&] { construct(made); }), HasSubstr("best.zstd"));
  made.run_name = "lr0.1";
  made.save_filename = "{run_name}-ep{epoch}-ba{batch}";
  made.save_latest_filename = "{run_name}-latest";
  run_until(made, 2);
  EXPECT_THAT(files("ckpt"), ElementsAre("lr0.1-ep0-ba1", "lr0.1-ep0-ba2"));
  made.model = saving().model;
  Trainer again(std::move(made));
  EXPECT_EQ(again.state().timestamp.batch, 2);
}

// --- The same command again ----------------------------------------------------------------------

TEST_F(Resubmission, ASaverWithAShorterIntervalWritesItsOwnFilesAgain) {
  const auto with_two = [&] {
    return options(
        {CheckpointSaver({.folder = folder / "full", .save_interval = "1ep"}),
         CheckpointSaver(
             {.folder = folder / "weights", .save_interval = "1ba", .weights_only = true}),
         CheckpointSaver(
             {.folder = folder / "last", .filename = "last.pt", .save_interval = "2ba"})});
  };
  run_until(with_two(), 3);  // The run dies before there is a checkpoint to resume from.
  run_until(with_two(), 8);
  Trainer last(with_two());
  EXPECT_EQ(last.state().timestamp.batch, 5);
  EXPECT_EQ(last.fit().reason, FitResult::Reason::kFinished);
  EXPECT_EQ(files("weights").size(), 15U);
  EXPECT_EQ(model_in("weights/latest-rank0.pt"), model_in("full/latest-rank0.pt"));
  EXPECT_EQ(model_in("last/last.pt"), model_in("full/latest-rank0.pt"));
}

TEST_F(Resubmission, OnlyFilesOfTheRunItselfAreWrittenAgain) {
  const auto with_two = [&](const std::string& name) {
    TrainerOptions made = options(
        {CheckpointSaver({.folder = folder / "full/{run_name}", .save_interval = "1ep"}),
         CheckpointSaver(
             {.folder = folder / "weights", .save_interval = "1ba", .weights_only = true})});
    made.run_name = name;
    return made;
  };
  run_until(with_two("first"), 8);
  EXPECT_THAT(message_of<AlreadyExistsError>([&] { run(with_two("second")); }),
              AllOf(HasSubstr("weights/ep0-ba1-rank0.pt"), HasSubstr("of the run \"first\"")));
  TrainerOptions by_hand = with_two("first");  // Resuming was not requested.
  by_hand.autoresume = false;
  by_hand.load_path = folder / "full/first/ep1-ba5-rank0.pt";
  EXPECT_THAT(message_of<AlreadyExistsError>([&] { run(by_hand); }),
              HasSubstr("weights/ep1-ba6-rank0.pt"));
}

TEST_F(Resubmission, WithoutTheWholeStateTheFirstStartSaysWhy) {
  TrainerOptions made = saving();
  made.save_weights_only = true;
  EXPECT_THAT(message_of<UsageError>([&] { construct(made); }),
              AllOf(HasSubstr("autoresume"), HasSubstr("save_weights_only")));
  made = saving();
  made.save_num_checkpoints_to_keep = 0;
  EXPECT_THAT(message_of<UsageError>([&] { construct(made); }),
              HasSubstr("save_num_checkpoints_to_keep is 0"));
  made = options({CheckpointSaver({.folder = folder / "a", .weights_only = true}),
                  CheckpointSaver({.folder = folder / "b", .num_checkpoints_to_keep = 0})});
  EXPECT_THAT(message_of<UsageError>([&] { construct(made); }),
              HasSubstr("a saver of the whole state"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(Resubmission, OfSeveralSaversTheFirstOfTheWholeStateCounts) {
  const auto with_two = [&] {
    return options(
        {CheckpointSaver(
             {.folder = folder / "weights", .save_interval = "1ba", .weights_only = true}),
         CheckpointSaver({.folder = folder / "full", .save_interval = "2ba"})});
  };
  run_until(with_two(), 7);
  Trainer again(with_two());
  EXPECT_EQ(again.state().timestamp.batch, 6);
  EXPECT_EQ(again.fit().reason, FitResult::Reason::kFinished);
}

// --- A name that does not change with the batch --------------------------------------------------

TEST_F(Resubmission, AConstantNameIsNotWrittenOverByAnotherStart) {
  TrainerOptions made = saving();
  made.autoresume = false;
  for (const auto& [format, name] :
       {std::pair("last.pt", "last.pt"), std::pair("{run_name}.pt", "run.pt"),
        std::pair("ep{epoch}.pt", "ep0.pt")}) {
    made.save_folder = folder / ("of-" + std::string(name));
    made.save_filename = format;
    made.max_duration = "4ba";  // Within the first epoch.
    made.model = saving().model;
    run(made);
    const std::string path = *made.save_folder + "/" + name;
    const std::string bytes = read_file(path);
    made.model = saving().model;
    EXPECT_THAT(message_of<AlreadyExistsError>([&] { run(made); }),
                AllOf(HasSubstr(path), HasSubstr("set autoresume"), HasSubstr("load_path"),
                      HasSubstr("another save_folder"), HasSubstr("save_overwrite")));
    EXPECT_EQ(read_file(path), bytes);
    TrainerOptions again = made;
    again.model = saving().model;
    again.save_overwrite = true;
    EXPECT_NO_THROW(run(again));
  }
}

// A file of weights names a later batch than the run's newest checkpoint. Autoresume cannot go on
// from it, so advice to set autoresume would lead nowhere.
TEST_F(Resubmission, AFileThatAutoresumeCannotUseAndThatIsInTheWayIsNamed) {
  run_until(saving(), 3);
  const std::string ahead = folder / "ckpt/ep1-ba9-rank0.pt";
  save(Dict{{"weight", 1}}, ahead);
  const std::string bytes = read_file(ahead);
  EXPECT_THAT(message_of<AlreadyExistsError>([&] { run(saving()); }),
              AllOf(HasSubstr(ahead), HasSubstr("Autoresume does not go on from it"),
                    HasSubstr("Move it away"), HasSubstr("save_overwrite"),
                    Not(HasSubstr("set autoresume")), Not(HasSubstr("load_path"))));
  EXPECT_EQ(read_file(ahead), bytes);
  fs::rename(ahead, folder / "elsewhere.pt");
  EXPECT_EQ(run(saving()).reason, FitResult::Reason::kFinished);
}

TEST_F(Resubmission, AConstantNameIsReplacedByTheRunThatGoesOnFromIt) {
  const auto constant = [&](const std::string& max) {
    TrainerOptions made = saving();
    made.save_filename = "last.pt";
    made.max_duration = max;
    return made;
  };
  run_until(constant("2ep"), 3);
  EXPECT_EQ(run(constant("2ep")).reason, FitResult::Reason::kFinished);
  TrainerOptions loading = constant("3ep");
  loading.autoresume = false;
  loading.load_path = folder / "ckpt/last.pt";
  TrainerOptions other = loading;
  other.run_name = "other";
  EXPECT_THAT(message_of<AlreadyExistsError>([&] { run(other); }), HasSubstr("of the run \"run\""));
  Trainer by_hand(std::move(loading));
  by_hand.fit();
  by_hand.fit({.duration = "1ep"});  // This process may overwrite its own files.
  EXPECT_EQ(verify(folder / "ckpt/last.pt").info->timestamp->batch, 20);
}

// --- The batch that was saved last ---------------------------------------------------------------

TEST_F(Resubmission, TheLastBatchIsNotSavedAgainUnderAnotherName) {
  for (const int keep : {-1, 1}) {
    const std::string where = "keep" + std::to_string(keep);
    const auto keeping = [&] {
      TrainerOptions made = saving(where);
      made.save_num_checkpoints_to_keep = keep;
      made.callbacks = {};
      return made;
    };
    run(keeping());
    const auto before = files(where);
    EXPECT_THAT(before, Contains("ep2-ba15-rank0.pt"));
    EXPECT_EQ(run(keeping()).reason, FitResult::Reason::kAlreadyFinished);
    EXPECT_EQ(files(where), before);
  }
}

TEST_F(Resubmission, NeitherByASecondSaverWhoseFilesTheStateDoesNotName) {
  const auto with_two = [&] {
    return options(
        {CheckpointSaver(
             {.folder = folder / "full", .save_interval = "1ba", .num_checkpoints_to_keep = 1}),
         CheckpointSaver({.folder = folder / "weights",
                          .save_interval = "5ba",
                          .num_checkpoints_to_keep = 1,
                          .weights_only = true})});
  };
  run(with_two());
  run(with_two());
  EXPECT_THAT(files("full"), ElementsAre("ep2-ba15-rank0.pt"));
  EXPECT_THAT(files("weights"), ElementsAre("ep2-ba15-rank0.pt"));
  fs::remove(folder / "weights/ep2-ba15-rank0.pt");  // As if killed before it saved.
  run(with_two());
  EXPECT_THAT(files("weights"), ElementsAre("ep3-ba15-rank0.pt"));
}

TEST_F(Resubmission, TheLinkThatAKilledSaveDidNotMoveIsMoved) {
  run(saving());
  fs::remove(folder / "ckpt/latest-rank0.pt");
  fs::create_symlink("ep2-ba14-rank0.pt", folder / "ckpt/latest-rank0.pt");
  run(saving());
  EXPECT_EQ(fs::read_symlink(folder / "ckpt/latest-rank0.pt"), "ep2-ba15-rank0.pt");
}

// --- Runs that share a folder --------------------------------------------------------------------

TEST_F(Resubmission, ARunDoesNotGoOnFromAnothersCheckpointsNorWritesOverThem) {
  run_until(saving(), 7);
  const auto before = files("ckpt");
  TrainerOptions other = saving();
  other.run_name = "other";
  EXPECT_THAT(message_of<UsageError>([&] { construct(other); }),
              AllOf(HasSubstr("of the run \"run\""), HasSubstr("\"other\""),
                    HasSubstr("{run_name}"), HasSubstr("load_path")));
  EXPECT_EQ(files("ckpt"), before);
}

TEST_F(Resubmission, OfARunsOwnAndAnothersCheckpointsItsOwnCount) {
  TrainerOptions other = saving("others");
  other.run_name = "other";
  run_until(std::move(other), 7);
  run_until(saving(), 3);
  for (const int batch : {6, 7}) {
    const std::string name = "/ep1-ba" + std::to_string(batch) + "-rank0.pt";
    fs::rename((folder / "others") + name, (folder / "ckpt") + name);
  }
  log->messages.clear();
  Trainer again(saving());
  EXPECT_EQ(again.state().timestamp.batch, 3);
  EXPECT_THAT(log->messages,
              Contains(AllOf(HasSubstr("passed over 2 checkpoints"), HasSubstr("\"other\""))));
  EXPECT_THAT(log->messages, Not(Contains(HasSubstr("skipped"))));
  EXPECT_THAT(message_of<AlreadyExistsError>([&] { again.fit(); }),
              AllOf(HasSubstr("ep1-ba6-rank0.pt"), HasSubstr("of the run \"other\"")));
}

TEST_F(Resubmission, RunsWithNamesOfTheirOwnShareAFolder) {
  const auto named = [&](const std::string& name) {
    TrainerOptions made = saving();
    made.run_name = name;
    made.save_filename = "{run_name}-ba{batch}.pt";  // All of these runs use one link.
    return made;
  };
  run_until(named("first"), 2);
  run_until(named("second"), 3);
  Trainer again(named("first"));
  EXPECT_EQ(again.state().timestamp.batch, 2);
  EXPECT_THAT(files("ckpt"), ElementsAre("first-ba1.pt", "first-ba2.pt", "second-ba1.pt",
                                         "second-ba2.pt", "second-ba3.pt"));
}

TEST_F(Resubmission, AForkUnderAnotherNameNeverRemovesTheOriginals) {
  run_until(saving(), 2);
  for (const auto& [max, keep] : {std::pair("4ba", 1), std::pair("6ba", 1)}) {
    TrainerOptions fork = saving();
    fork.run_name = "fork";
    fork.max_duration = max;
    fork.save_num_checkpoints_to_keep = keep;
    fork.load_path = folder / "ckpt/ep0-ba2-rank0.pt";
    fork.autoresume = std::string(max) == "6ba";  // By then, the fork has a checkpoint of its own.
    run(std::move(fork));
  }
  EXPECT_THAT(files("ckpt"),
              ElementsAre("ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt", "ep1-ba6-rank0.pt"));
}

// --- A folder that has moved ---------------------------------------------------------------------

struct MovedFolder : Resubmission {
  TrainerOptions keeping_two(const std::string& where) {
    TrainerOptions made = saving();
    made.save_folder = where;
    made.save_num_checkpoints_to_keep = 2;
    return made;
  }
};

TEST_F(MovedFolder, KeepsItsRetention) {
  run_until(keeping_two(folder / "ckpt"), 7);
  fs::rename(folder / "ckpt", folder / "moved");
  Trainer last(keeping_two(folder / "moved"));
  last.fit();
  EXPECT_THAT(files("moved"), ElementsAre("ep2-ba14-rank0.pt", "ep2-ba15-rank0.pt"));
  EXPECT_THAT(last.saved_checkpoints(),
              ElementsAre(folder / "moved/ep2-ba14-rank0.pt", folder / "moved/ep2-ba15-rank0.pt"));
}

TEST_F(MovedFolder, IsTheSameFromAnotherWorkingDirectory) {
  struct WorkingDirectory {
    fs::path before = fs::current_path();
    ~WorkingDirectory() { fs::current_path(before); }
  } const restored;
  fs::current_path(folder.path());
  run_until(keeping_two("ckpt"), 7);
  fs::create_directory(folder / "elsewhere");
  fs::current_path(folder / "elsewhere");
  run_until(keeping_two("../ckpt"), 9);
  fs::current_path("/");
  run(keeping_two(folder / "ckpt"));
  EXPECT_THAT(files("ckpt"), ElementsAre("ep2-ba14-rank0.pt", "ep2-ba15-rank0.pt"));
}

TEST_F(MovedFolder, ACopyCountsItsOwnFilesAndLeavesTheOriginals) {
  run_until(keeping_two(folder / "ckpt"), 7);
  fs::copy(folder / "ckpt", folder / "copy",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  run(keeping_two(folder / "copy"));
  EXPECT_THAT(files("copy"), ElementsAre("ep2-ba14-rank0.pt", "ep2-ba15-rank0.pt"));
  EXPECT_THAT(files("ckpt"), ElementsAre("ep1-ba6-rank0.pt", "ep1-ba7-rank0.pt"));
}

// A fork saves beside files that have the same names as files in the loaded state, but belong to
// another run.
TEST_F(MovedFolder, FilesThatOnlyHaveTheSameNamesStay) {
  run_until(keeping_two(folder / "ckpt"), 7);
  TrainerOptions stranger = saving("fork");
  stranger.run_name = "stranger";
  run_until(std::move(stranger), 7);
  TrainerOptions fork = keeping_two(folder / "fork");
  fork.autoresume = false;
  fork.load_path = folder / "ckpt/ep1-ba7-rank0.pt";
  fork.save_num_checkpoints_to_keep = 1;
  run(std::move(fork));
  EXPECT_THAT(files("fork"), AllOf(Contains("ep1-ba6-rank0.pt"), Contains("ep1-ba7-rank0.pt"),
                                   Contains("ep2-ba15-rank0.pt")));
  EXPECT_EQ(files("fork").size(), 8U);
  EXPECT_THAT(files("ckpt"), ElementsAre("ep1-ba6-rank0.pt", "ep1-ba7-rank0.pt"));
}

}  // namespace
}  // namespace cairn
