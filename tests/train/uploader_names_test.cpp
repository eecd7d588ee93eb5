// The names of uploaded checkpoints: how the Trainer's options set them, and where autoresume
// looks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cairn/error.h"

#include "storage/listing.h"
#include "testing/message_of.h"
#include "tests/train/uploader_fixture.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::Uploader;

TEST_F(Uploader, TheTrainersOwnSaverNamesThemAsItIsTold) {
  const auto told = [&](const std::string& duration) {
    TrainerOptions made = options(duration);
    made.callbacks = {};
    made.save_folder = folder / "ckpt";
    made.save_remote_file_name = "{run_name}/all/{batch}.pt";
    made.save_latest_remote_file_name = "{run_name}/newest.pt";
    made.save_interval = "1ba";
    return made;
  };
  Trainer(told("2ba")).fit();
  EXPECT_THAT(list_names(*store, "run/all"), ElementsAre("1.pt", "2.pt"));
  EXPECT_EQ(store->read_pointer("run/newest.pt")->target, "run/all/2.pt");
  fs::remove_all(folder / "ckpt");
  EXPECT_EQ(Trainer(told("3ba")).state().timestamp.batch, 2);
}

TEST_F(Uploader, RemoteNamesThatNothingUsesAreRefused) {
  TrainerOptions made = options("1ba");
  made.callbacks = {};
  made.save_folder = folder / "ckpt";
  made.save_remote_file_name = "{run_name}/{batch}.pt";
  made.loggers = {log};
  EXPECT_THAT(message_of<UsageError>([&] { Trainer{made}; }),
              HasSubstr("save_remote_file_name has no effect without a logger that uploads"));
  // If the folder is in a store, the message differs.
  made.save_folder = "run/all";
  made.save_object_store = store;
  EXPECT_THAT(message_of<UsageError>([&] { Trainer{made}; }),
              HasSubstr("give the folders of that name in save_folder"));
  made.save_filename = "{batch}.pt";
  made.save_remote_file_name.reset();
  Trainer(std::move(made)).fit();
  EXPECT_TRUE(store->stat("run/all/1.pt"));
}

// Composer's guide to autoresume uses these names.
TEST_F(Uploader, CheckpointsOfTheGuidesNamesAreFoundBesideTodaysNames) {
  for (const char* const extension : {".pt", ""}) {
    store = memory_store();
    fs::remove_all(folder / "ckpt");
    CheckpointSaverOptions guide = saver();
    guide.remote_file_name =
        std::string("{run_name}/checkpoints/ep{epoch}-ba{batch}-rank{rank}") + extension;
    guide.latest_remote_file_name =
        std::string("{run_name}/checkpoints/latest-rank{rank}") + extension;
    TrainerOptions before = options("2ba");
    before.callbacks = {CheckpointSaver(guide)};
    Trainer(std::move(before)).fit();
    ASSERT_TRUE(store->read_pointer(std::string("run/checkpoints/latest-rank0") + extension));
    fs::remove_all(folder / "ckpt");
    TrainerOptions made = options("3ba");
    made.callbacks = {};
    made.save_folder = folder / "ckpt";
    EXPECT_EQ(Trainer(std::move(made)).state().timestamp.batch, 2) << extension;
  }
}

}  // namespace
}  // namespace cairn
