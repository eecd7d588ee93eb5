// The save folder of a run. A second start is refused. An unusable folder is found before training.
// Folders with the names of saves do not stop a run.

#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "checkpoint/folder/run_lock.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/killed_run.h"
#include "testing/message_of.h"
#include "testing/other_process.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::OtherProcess;
using testing::run;
using testing::run_until;

struct AfterBatchOne final : Callback {
  explicit AfterBatchOne(std::function<void()> act) : act_(std::move(act)) {}
  std::string name() const override { return "AfterBatchOne"; }
  void batch_end(State& state, Logger& /*logger*/) override {
    if (state.timestamp.batch == 1) act_();
  }

 private:
  std::function<void()> act_;
};

struct SaveFolder : ::testing::Test {
  // 3 epochs of 5 batches. Saves each batch and keeps 2.
  TrainerOptions saving() {
    TrainerOptions made = testing::tiny_options();
    made.train_dataloader = testing::tiny_loader(10);
    made.max_duration = "3ep";
    made.run_name = "run";
    made.loggers = {log};
    made.autoresume = true;
    made.save_folder = ckpt();
    made.save_interval = "1ba";
    made.save_num_checkpoints_to_keep = 2;
    return made;
  }
  std::string ckpt() const { return folder / "ckpt"; }

  // All names, including hidden ones.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(ckpt()))
      found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }

  testing::TempFolder folder;
  std::shared_ptr<testing::LogRecorder> log = std::make_shared<testing::LogRecorder>();
};

// --- Two starts of one run -----------------------------------------------------------------------

struct TwoStarts : SaveFolder {
  void take() {
    fs::create_directories(ckpt());
    held =
        take_run_lock(posix_file_system(), {.folder = ckpt(), .run_name = "run", .job = "first"});
  }
  std::shared_ptr<void> held;
};

TEST_F(TwoStarts, TheSecondTrainsNothingAndChangesNothing) {
  run_until(saving(), 2);
  OtherProcess first([&] { take(); });
  const auto before = names();
  Trainer second(saving());
  EXPECT_THAT(message_of<BusyError>([&] { second.fit(); }),
              AllOf(HasSubstr("\"run\""), HasSubstr("process " + std::to_string(first.pid()))));
  EXPECT_EQ(second.state().timestamp.batch, 2);
  EXPECT_EQ(names(), before);
  first.kill();
  EXPECT_EQ(second.fit().reason, FitResult::Reason::kFinished) << "it died: an elastic restart";
  EXPECT_THAT(names(), ElementsAre("ep2-ba14-rank0.pt", "ep2-ba15-rank0.pt", "latest-rank0.pt"));
}

// The lock is free again, but the checkpoint that the second start would resume from is no longer
// the newest.
TEST_F(TwoStarts, TheSecondDoesNotGoOnFromBeforeWhatTheFirstSavedMeanwhile) {
  run_until(saving(), 2);
  OtherProcess first([&] { take(); });
  Trainer second(saving());
  ASSERT_EQ(second.state().timestamp.batch, 2);
  first.kill();
  TrainerOptions again = saving();
  again.loggers = {};
  run_until(std::move(again), 5);
  const auto before = names();
  EXPECT_THAT(message_of<BusyError>([&] { second.fit(); }), HasSubstr("Start this one again"));
  EXPECT_EQ(names(), before);
}

TEST_F(TwoStarts, ALoadNeitherNeedsTheLockNorTakesTheLinkBack) {
  run_until(saving(), 2);
  const OtherProcess first([&] { take(); });
  fs::remove(ckpt() + "/latest-rank0.pt");  // As if the link is being moved.
  Trainer reader(saving());
  EXPECT_EQ(reader.state().timestamp.batch, 2);
  EXPECT_THAT(names(), ::testing::Not(Contains("latest-rank0.pt")));
}

TEST_F(TwoStarts, TwoTrainersOfOneProcessShareTheLock) {
  TrainerOptions weights = saving();
  weights.autoresume = false;
  weights.save_filename = "weights-ba{batch}.pt";
  weights.save_latest_filename.reset();
  weights.loggers = {};
  Trainer inner(std::move(weights));
  bool has_trained = false;
  TrainerOptions outer = saving();
  outer.max_duration = "1ba";
  outer.callbacks = {std::make_shared<AfterBatchOne>([&] {
    inner.fit();
    has_trained = true;
  })};
  run(std::move(outer));
  EXPECT_TRUE(has_trained);
}

TEST_F(TwoStarts, TheLockIsHeldWhileAFitMaySaveAndNoLonger) {
  Trainer trainer(saving());
  const auto locks = [&] { return list_run_locks(posix_file_system(), ckpt()).size(); };
  EXPECT_EQ(locks(), 0U);
  trainer.fit();
  EXPECT_EQ(locks(), 0U);
}

TEST_F(TwoStarts, AFileSystemWithoutLocksIsALine) {
  testing::FaultyFileSystem files(posix_file_system());  // Does not support locks.
  TrainerOptions made = saving();
  made.save_object_store = local_store(files);
  EXPECT_EQ(run(std::move(made)).reason, FitResult::Reason::kFinished);
  EXPECT_THAT(log->messages, Contains(AllOf(HasSubstr(ckpt()), HasSubstr("no locks"))));
}

// --- Names that no save can have -----------------------------------------------------------------

TEST_F(SaveFolder, FoldersInNamesThatTakeNoFileAreFoundBeforeTraining) {
  fs::create_directories(ckpt());
  fs::create_directories(folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", ckpt() + "/link");
  testing::write_file(ckpt() + "/file", "");
  const auto refused = [&](const std::string& filename, const std::string& latest) {
    TrainerOptions made = saving();
    made.save_filename = filename;
    made.save_latest_filename = latest;
    return message_of<Error>([&] { Trainer(std::move(made)); });
  };
  EXPECT_THAT(refused("link/ba{batch}.pt", "latest.pt"), HasSubstr("link is a link"));
  EXPECT_THAT(refused("file/ba{batch}.pt", "latest.pt"), HasSubstr("file"));
  EXPECT_THAT(refused("ba{batch}.pt", "link/latest.pt"), HasSubstr("link is a link"));
  EXPECT_THAT(refused(std::string(260, 'a') + "{batch}.pt", "latest.pt"), HasSubstr("too long"));
  EXPECT_THAT(names(), ElementsAre("file", "link"));
  EXPECT_TRUE(fs::is_empty(folder / "elsewhere"));
}

// --- A run that was killed in its last save ------------------------------------------------------

TEST_F(SaveFolder, ARunThatIsFoundFinishedRemovesWhatItsLastSaveDidNotComeTo) {
  run_until(saving(), 14);
  fs::copy_file(ckpt() + "/ep2-ba13-rank0.pt", folder / "superfluous");
  run(saving());
  fs::copy_file(folder / "superfluous", ckpt() + "/ep2-ba13-rank0.pt");
  EXPECT_EQ(run(saving()).reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_THAT(names(), ElementsAre("ep2-ba14-rank0.pt", "ep2-ba15-rank0.pt", "latest-rank0.pt"));
  EXPECT_THAT(log->messages, Contains(AllOf(HasSubstr("removed"), HasSubstr("ep2-ba13"))));
}

TEST_F(SaveFolder, ItRemovesNothingThatAnotherRunSavedThereSince) {
  run_until(saving(), 14);
  run(saving());
  TrainerOptions other = saving();
  other.run_name = "other";
  other.save_folder = folder / "others";
  run_until(std::move(other), 13);
  fs::copy_file(folder / "others/ep2-ba13-rank0.pt", ckpt() + "/ep2-ba13-rank0.pt");
  EXPECT_EQ(run(saving()).reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_THAT(names(), Contains("ep2-ba13-rank0.pt"));
}

// --- Other things with the name of a save --------------------------------------------------------

TEST_F(SaveFolder, AFolderNamedAsTheNextSaveIsPutAside) {
  for (const bool overwrite : {false, true}) {
    fs::remove_all(ckpt());
    run_until(saving(), 2);
    fs::create_directories(ckpt() + "/ep0-ba3-rank0.pt/somebody's");
    TrainerOptions made = saving();
    made.save_overwrite = overwrite;
    EXPECT_EQ(run(std::move(made)).reason, FitResult::Reason::kFinished);
    EXPECT_TRUE(fs::is_directory(ckpt() + "/ep0-ba3-rank0.pt.damaged/somebody's"));
    EXPECT_THAT(log->messages, Contains(AllOf(HasSubstr("ep0-ba3-rank0.pt"), HasSubstr("renamed"),
                                              HasSubstr("folder"))));
  }
}

TEST_F(SaveFolder, SoIsOneThatIsMadeWhileTheRunTrains) {
  TrainerOptions made = saving();
  made.callbacks = {
      std::make_shared<AfterBatchOne>([&] { fs::create_directory(ckpt() + "/ep0-ba3-rank0.pt"); })};
  EXPECT_EQ(run(std::move(made)).reason, FitResult::Reason::kFinished);
  EXPECT_THAT(names(), Contains("ep0-ba3-rank0.pt.damaged"));
}

TEST_F(SaveFolder, AFolderNamedAsTheLinkIsPutAside) {
  run_until(saving(), 2);
  fs::remove(ckpt() + "/latest-rank0.pt");
  fs::create_directories(ckpt() + "/latest-rank0.pt/somebody's");
  EXPECT_EQ(run(saving()).reason, FitResult::Reason::kFinished);
  EXPECT_EQ(fs::read_symlink(ckpt() + "/latest-rank0.pt"), "ep2-ba15-rank0.pt");
  EXPECT_TRUE(fs::is_directory(ckpt() + "/latest-rank0.pt.aside/somebody's"));
}

// `cp -L` makes a file of the link: it may be the only copy of a checkpoint, of any run.
TEST_F(SaveFolder, AFileNamedAsTheLinkIsPutAsideWithALine) {
  run_until(saving(), 2);
  const std::string link = ckpt() + "/latest-rank0.pt";
  const std::string bytes = testing::read_file(link);
  fs::remove(link);
  testing::write_file(link, bytes);
  TrainerOptions made = saving();
  made.loggers = {log};
  EXPECT_EQ(run(std::move(made)).reason, FitResult::Reason::kFinished);
  EXPECT_EQ(fs::read_symlink(link), "ep2-ba15-rank0.pt");
  EXPECT_EQ(testing::read_file(link + ".aside"), bytes);
  EXPECT_THAT(log->messages, Contains(HasSubstr("latest-rank0.pt to .aside: it is no link")));
}

TEST_F(SaveFolder, AFolderNamedAsTheLinkOfAFinishedRunIsPutAside) {
  run(saving());
  fs::remove(ckpt() + "/latest-rank0.pt");
  fs::create_directory(ckpt() + "/latest-rank0.pt");
  EXPECT_EQ(run(saving()).reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_EQ(fs::read_symlink(ckpt() + "/latest-rank0.pt"), "ep2-ba15-rank0.pt");
}

// --- A folder that cannot be saved into ----------------------------------------------------------

// The error that a Trainer throws before it trains.
template <class E>
std::string refusal(TrainerOptions made) {
  return message_of<E>([&] { const Trainer trainer(std::move(made)); });
}

TEST_F(SaveFolder, ALinkThatLeadsNowhereIsFoundAtConstruction) {
  fs::create_symlink("nowhere", ckpt());
  EXPECT_THAT(refusal<StorageError>(saving()),
              AllOf(HasSubstr(ckpt()), HasSubstr("link to " + (folder / "nowhere"))));
  TrainerOptions below = saving();
  below.save_folder = ckpt() + "/below";
  EXPECT_THAT(refusal<StorageError>(std::move(below)), HasSubstr("link to"));
}

TEST_F(SaveFolder, AReadOnlyVolumeIsFoundAtConstruction) {
  fs::create_directory(ckpt());
  testing::FaultyFileSystem files(posix_file_system());
  files.fail(testing::FileCall::kCreate, 1, EROFS);
  TrainerOptions made = saving();
  made.save_object_store = local_store(files);
  try {
    const Trainer trainer(std::move(made));
    FAIL() << "nothing was found";
  } catch (const StorageError& e) {
    EXPECT_EQ(e.status(), EROFS);
    EXPECT_THAT(e.what(), AllOf(HasSubstr(ckpt()), HasSubstr("read-only")));
  }
  EXPECT_TRUE(fs::is_empty(ckpt()));
}

TEST_F(SaveFolder, ANameThatIsNoUtf8IsFoundAtConstruction) {
  TrainerOptions made = saving();
  made.save_folder = folder / "a\xff";
  EXPECT_THAT(refusal<UsageError>(std::move(made)),
              AllOf(HasSubstr("save_folder"), HasSubstr("a\\xff"), HasSubstr("UTF-8")));
  made = saving();
  made.run_name = "a\xff";
  EXPECT_THAT(refusal<UsageError>(std::move(made)), HasSubstr("run_name"));
  made = saving();
  made.save_filename = "a\xff-{batch}.pt";
  EXPECT_THAT(refusal<UsageError>(std::move(made)), HasSubstr("filename"));
}

class SmallDisk final : public testing::FaultyFileSystem {
 public:
  explicit SmallDisk(std::uint64_t room) : FaultyFileSystem(posix_file_system()), room_(room) {}
  std::optional<std::uint64_t> free_bytes(const std::string& /*folder*/) override { return room_; }

 private:
  std::uint64_t room_;
};

TEST_F(SaveFolder, LessRoomThanACheckpointNeedsIsFoundAtConstruction) {
  // Linear(4, 8) and Linear(8, 3) in float64. Adam's state is twice as large.
  constexpr std::uint64_t kWeights = 8 * (4 * 8 + 8 + 8 * 3 + 3);
  const auto on_disk = [&](SmallDisk& files) {
    TrainerOptions made = saving();
    made.optimizers = Adam({.lr = 0.01});
    made.loggers = {};
    made.save_object_store = local_store(files);
    return made;
  };
  SmallDisk small(3 * kWeights - 1);
  try {
    const Trainer trainer(on_disk(small));
    FAIL() << "nothing was found";
  } catch (const StorageError& e) {
    EXPECT_EQ(e.status(), ENOSPC);
    EXPECT_THAT(e.what(), AllOf(HasSubstr(ckpt()), HasSubstr("free")));
  }
  SmallDisk enough(3 * kWeights);
  const Trainer trainer(on_disk(enough));
  TrainerOptions weights = on_disk(small);
  weights.autoresume = false;
  weights.save_weights_only = true;
  const Trainer of_weights(std::move(weights));
}

TEST_F(SaveFolder, AFinishedRunNeedsNoRoom) {
  run(saving());
  SmallDisk full(0);
  TrainerOptions made = saving();
  made.save_object_store = local_store(full);
  EXPECT_EQ(run(std::move(made)).reason, FitResult::Reason::kAlreadyFinished);
}

}  // namespace
}  // namespace cairn
