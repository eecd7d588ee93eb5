// Files in a CheckpointSaver's folder that change while training continues, or that the disk fails
// to deliver.
#include "saving/places/saver_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "storage/local/local_store.h"
#include "testing/missing_bytes.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::MissingBytes;
using ::testing::Not;
using testing::read_file;
using testing::StoreCall;
using testing::StoreHooks;
using testing::TempFolder;
using testing::tiny_options;
using ::testing::UnorderedElementsAreArray;
using testing::WatchedStore;
using testing::write_file;

struct SaverFolderTest : ::testing::Test {
  // 5 batches per epoch.
  TrainerOptions options(const std::string& max_duration) {
    TrainerOptions made = tiny_options();
    made.max_duration = max_duration;
    made.run_name = "run";
    made.save_folder = folder / "ckpt";
    return made;
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "ckpt")) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TempFolder folder;
};

// If such a folder is put aside, the message says what is wrong with the folder.
TEST_F(SaverFolderTest, AFolderWhosePlanIsAPipeIsNoCheckpoint) {
  const std::string path = folder / "ep1-ba5";
  std::filesystem::create_directory(path);
  write_file(path + "/__0_0.distcp", "x");
  EXPECT_THAT(find_obstacle(*local_store(), path, /*makes_folder=*/true),
              HasSubstr("it has no .metadata"));
  ASSERT_EQ(mkfifo((path + "/.metadata").c_str(), 0600), 0);
  EXPECT_THAT(find_obstacle(*local_store(), path, /*makes_folder=*/true),
              HasSubstr("its .metadata is a pipe"));
}

// A name cannot start a new line in the log.
TEST_F(SaverFolderTest, NamesInTheLogStayInTheirLine) {
  const auto log = std::make_shared<LogRecorder>();
  const auto run_in_it = [&](const std::string& max_duration) {
    TrainerOptions made = options(max_duration);
    made.save_folder = folder / "a\nb\x1b[2J";
    made.autoresume = true;
    made.loggers = {log};
    Trainer trainer(std::move(made));
    trainer.fit();
  };
  run_in_it("1ep");
  run_in_it("2ep");
  for (const char* done : {"saved ", "loaded "}) {
    EXPECT_THAT(log->messages,
                Contains(::testing::AllOf(::testing::StartsWith(done),
                                          HasSubstr("/a\\x0ab\\x1b[2J/ep1-ba5-rank0.pt"))))
        << done;
  }
}

// The file was damaged when training started, and was replaced since. The saver does not overwrite
// the new file.
TEST_F(SaverFolderTest, DamagedFileThatIsWholeByNowIsKept) {
  std::filesystem::create_directories(folder / "ckpt");
  const std::string path = folder / "ckpt/ep1-ba5-rank0.pt";
  write_file(path, "torn");
  std::string bytes;
  TrainerOptions made = options("1ep");
  made.callbacks.push_back(std::make_shared<CallAt>(Event::kBatchEnd, [&](State&) {
    save(Dict{{"state", Dict{{"run_name", "other"}}}}, path, {.info = {.run_name = "other"}});
    bytes = read_file(path);
  }));
  Trainer trainer(std::move(made));
  EXPECT_THROW(trainer.fit(), AlreadyExistsError);
  EXPECT_EQ(read_file(path), bytes);
  EXPECT_THAT(files(), Not(Contains(HasSubstr(".damaged"))));
}

TEST_F(SaverFolderTest, ManyDamagedNeighboursAreFiveLinesAndACount) {
  const auto log = std::make_shared<LogRecorder>();
  const auto start = [&](const std::string& max_duration) {
    TrainerOptions made = options(max_duration);
    made.autoresume = true;
    made.loggers = {log};
    Trainer trainer(std::move(made));
    trainer.fit();
  };
  start("1ep");
  for (int batch = 100; batch < 130; ++batch) {
    write_file(folder / ("ckpt/ep9-ba" + std::to_string(batch) + "-rank0.pt"), "PK");
  }
  log->messages.clear();
  start("2ep");
  const auto lines_with = [&](const std::string& text) {
    return std::ranges::count_if(log->messages, [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  };
  EXPECT_EQ(lines_with("autoresume skipped"), 5 + 1);
  EXPECT_EQ(lines_with("autoresume skipped 25 more; "), 1);
  EXPECT_EQ(lines_with("no run can go on from"), 5);
  EXPECT_EQ(lines_with("the same is true of 25 more files"), 1);
  EXPECT_EQ(lines_with("autoresume: going on from"), 1);
}

// It is unknown which run a file belongs to that the disk does not deliver. So the file is neither
// overwritten nor renamed, however long that lasts.
TEST_F(SaverFolderTest, WhatTheDiskDoesNotGiveIsNotWrittenOver) {
  {
    TrainerOptions other = options("1ep");
    other.run_name = "other";
    Trainer first(std::move(other));
    first.fit();
  }
  const std::string path = folder / "ckpt/ep1-ba5-rank0.pt";
  const std::string bytes = read_file(path);
  const auto before = files();
  for (const int times : {1, 1000}) {
    MissingBytes disk(path, times);
    TrainerOptions made = options("1ep");
    made.save_object_store = local_store(disk);
    Trainer trainer(std::move(made));
    EXPECT_THROW(trainer.fit(), UnreadableError);
    EXPECT_EQ(read_file(path), bytes);
    EXPECT_THAT(files(), UnorderedElementsAreArray(before));
  }
}

TEST_F(SaverFolderTest, NothingThatWasPutAsideIsWrittenOver) {
  std::filesystem::create_directories(folder / "ckpt");
  const std::string path = folder / "ckpt/ep1-ba5-rank0.pt";
  write_file(path + ".damaged", "the first");
  write_file(path + ".damaged-2", "the second");
  write_file(path, "torn");
  Trainer trainer(options("1ep"));
  trainer.fit();
  EXPECT_EQ(read_file(path + ".damaged"), "the first");
  EXPECT_EQ(read_file(path + ".damaged-2"), "the second");
  EXPECT_EQ(read_file(path + ".damaged-3"), "torn");
}

// It is not even known whether the name is a folder's, so it may hold files of other runs.
TEST_F(SaverFolderTest, AFolderThatCannotBeLookedAtOnceIsNotTakenForNone) {
  const auto in_folders = [&](const std::string& run) {
    TrainerOptions made = options("1ep");
    made.run_name = run;
    made.save_filename = "e{epoch}/ba{batch}.pt";
    return made;
  };
  {
    Trainer first(in_folders("other"));
    first.fit();
  }
  const std::string bytes = read_file(folder / "ckpt/e1/ba5.pt");
  MissingBytes disk(folder / "ckpt/e1", 1, /*hides_name=*/true);
  TrainerOptions made = in_folders("run");
  made.save_object_store = local_store(disk);
  EXPECT_THROW(Trainer(std::move(made)).fit(), UnreadableError);
  EXPECT_EQ(read_file(folder / "ckpt/e1/ba5.pt"), bytes);
}

// The manifest is read first, because it says which run wrote the parts of a folder.
TEST_F(SaverFolderTest, AFolderWhoseManifestTheDiskDoesNotGiveIsGivenUpByWhoGoesOnFromBefore) {
  std::filesystem::create_directories(folder / "ckpt");
  save(Dict{{"state", Dict{{"run_name", "run"}}}}, folder / "a.pt");
  const std::string path = folder / "ckpt/ep1-ba5";
  convert(folder / "a.pt", path, {.to = "dcp"});
  MissingBytes disk(path + "/.cairn_manifest.json", 1000);
  const SaverPlace place{.store = local_store(disk),
                         .folder = folder / "ckpt",
                         .filename = "ep{epoch}-ba{batch}",
                         .run_name = "run",
                         .now = {},
                         .saves_folders = true};
  EXPECT_THROW(check_conflicts(place, SavedCheckpoints(), /*may_rewrite_own=*/false),
               UnreadableError);
  const FolderConflicts found =
      check_conflicts(place, SavedCheckpoints(), /*may_rewrite_own=*/true);
  ASSERT_EQ(found.unusable.size(), 1U);
  EXPECT_EQ(found.unusable[0].path, path);
  EXPECT_THAT(found.unusable[0].problem, HasSubstr(".cairn_manifest.json"));
  EXPECT_EQ(examine_again(place.store, path, "run", true).value().ending, "unreadable");
}

// In a far store every write has a condition, so the saver must know the versions of the objects of
// its own run.
TEST_F(SaverFolderTest, FarAwayWhatWasNotGivenOnceIsWrittenAgainByItsRun) {
  const auto memory = memory_store();
  const auto with = [&](std::shared_ptr<ObjectStore> store) {
    TrainerOptions made = options("1ep");
    made.save_folder = "ckpt";
    made.save_interval = "1ba";
    made.save_object_store = std::move(store);
    made.autoresume = true;
    return made;
  };
  {
    TrainerOptions made = with(memory);
    made.max_duration = "3ba";
    Trainer first(std::move(made));
    first.fit();
  }
  const std::string newest = "ckpt/ep0-ba3-rank0.pt";
  int left = 2;
  Trainer resumed(with(std::make_shared<WatchedStore>(
      memory, StoreHooks{.before = [&](StoreCall call, const std::string& name) {
        const bool fails = call == StoreCall::kOpen && name == newest && left-- > 0;
        if (fails) throw UnreadableError("cannot open " + name, ESTALE);
      }})));
  EXPECT_EQ(resumed.state().timestamp.batch, 2);
  resumed.fit();
  EXPECT_LT(left, 0);  // The object was looked at once more.
  EXPECT_TRUE(verify("ckpt/ep0-ba5-rank0.pt", Verify::kFull, memory).ok());
}

}  // namespace
}  // namespace cairn
