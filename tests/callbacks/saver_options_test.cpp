// The options of a CheckpointSaver, checked before it saves anything.
#include "saving/saver_options.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;

// Otherwise such a name would become a folder called "s3:" in the save folder.
TEST(SaverOptionsTest, ANameInTheFolderIsNoPlace) {
  const TempFolder folder;
  const auto said = [&](CheckpointSaverOptions made) {
    made.folder = folder / "ckpt";
    return message_of<Error>([&] { const CheckpointSaver saver(made); });
  };
  const auto of_a_store = AllOf(HasSubstr("s3://bucket/a.pt is a name in the folder"),
                                HasSubstr("give the folder as a place"));
  EXPECT_THAT(said({.filename = "s3://bucket/a.pt"}), of_a_store);
  EXPECT_THAT(said({.latest_filename = "s3://bucket/a.pt"}), of_a_store);
  EXPECT_THAT(said({.filename = "foo://{run_name}/a.pt"}), HasSubstr("no store for foo://"));
  // In a program's own store, names may look like anything.
  const CheckpointSaver own({.folder = "run", .filename = "s3://a.pt", .store = memory_store()});
  TrainerOptions made = testing::tiny_options();
  made.save_folder = folder / "ckpt";
  made.run_name = "foo:/";
  made.save_filename = "{run_name}/a.pt";
  EXPECT_THAT(message_of<UnsupportedError>([&] { Trainer(std::move(made)).fit(); }),
              HasSubstr("no store for foo://"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ckpt"));
}

TEST(SaverOptionsTest, NamesThatLeadOutOfTheFolderAreRefused) {
  const TempFolder folder;
  const auto said = [&](CheckpointSaverOptions made) {
    made.folder = folder / "ckpt";
    return message_of<UsageError>([&] { const CheckpointSaver saver(made); });
  };
  EXPECT_THAT(said({.filename = "../x{batch}.pt"}), HasSubstr("leads out of the save folder"));
  EXPECT_THAT(said({.filename = "a/../x{batch}.pt"}), HasSubstr("leads out of the save folder"));
  EXPECT_THAT(said({.latest_filename = "../latest.pt"}), HasSubstr("latest_filename"));
  TrainerOptions made = testing::tiny_options();
  made.save_folder = folder / "ckpt";
  made.run_name = "..";
  EXPECT_THAT(message_of<UsageError>([&] { Trainer{made}; }), HasSubstr("run_name is \"..\""));
  made.save_filename = "{run_name}/x{batch}.pt";
  EXPECT_THAT(message_of<UsageError>([&] { Trainer{made}; }), HasSubstr("leads out"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ckpt"));
}

TEST(SaverOptionsTest, AnIntervalThatSavesNothingIsRefused) {
  for (const char* const interval : {"0ba", "0ep", "-5ba"}) {
    EXPECT_THAT(message_of<UsageError>([&] {
                  const CheckpointSaver saver({.folder = "ckpt", .save_interval = interval});
                }),
                HasSubstr("nothing would ever be saved"));
  }
}

}  // namespace
}  // namespace cairn
