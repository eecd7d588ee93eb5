// A program's own store, given to the Trainer, a CheckpointSaver and the free functions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "storage/listing.h"
#include "testing/resumable_state.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::resumable_state;
using testing::tiny_options;

TrainerOptions options(const std::string& duration) {
  TrainerOptions made = tiny_options();
  made.optimizers = AdamW({.lr = 0.01});
  made.max_duration = duration;
  made.run_name = "run";
  made.save_interval = "1ba";
  made.seed = 3;
  return made;
}

TEST(OwnStoreTest, ATrainerSavesRotatesAndResumesInIt) {
  const auto store = memory_store();
  const auto in_store = [&](const std::string& duration, const std::string& folder) {
    TrainerOptions made = options(duration);
    made.save_folder = folder;
    // Checkpoints to keep on this machine, where this run never has any.
    made.save_num_checkpoints_to_keep = 0;
    made.save_num_remote_checkpoints_to_keep = 2;
    made.save_object_store = store;
    made.autoresume = true;
    return made;
  };
  Trainer(in_store("4ba", "straight")).fit();
  Trainer(in_store("2ba", "run")).fit();
  Trainer resumed(in_store("4ba", "run"));
  EXPECT_EQ(resumed.state().timestamp.batch, 2);
  resumed.fit();
  resumed.close();
  EXPECT_THAT(list_names(*store, "run"),
              ElementsAre("ep0-ba3-rank0.pt", "ep0-ba4-rank0.pt", "latest-rank0.pt"));
  EXPECT_EQ(resumable_state(load("run/latest-rank0.pt", {.store = store})),
            resumable_state(load("straight/latest-rank0.pt", {.store = store})));
  EXPECT_EQ(store->read_pointer("run/latest-rank0.pt")->target, "run/ep0-ba4-rank0.pt");
}

// In each kind of place one of the two limits counts. With the other one a run fills its disk.
TEST(OwnStoreTest, ALimitThatCountsElsewhereIsToldBeforeTheDiskIsFull) {
  const testing::TempFolder folder;
  const auto messages_with = [&](std::shared_ptr<ObjectStore> store, std::optional<int> here,
                                 std::optional<int> there) {
    const auto log = std::make_shared<testing::LogRecorder>();
    TrainerOptions made = options("1ba");
    made.save_folder = folder.path();
    made.save_object_store = std::move(store);
    made.save_num_checkpoints_to_keep = here;
    made.save_num_remote_checkpoints_to_keep = there;
    made.loggers = {log};
    const Trainer trainer(std::move(made));
    return log->messages;
  };
  const auto warns = ::testing::Contains(::testing::HasSubstr("all are kept, unless"));
  EXPECT_THAT(messages_with(nullptr, std::nullopt, 3), warns);
  EXPECT_THAT(messages_with(memory_store(), 3, std::nullopt), warns);
  EXPECT_THAT(messages_with(nullptr, 3, 3), ::testing::Not(warns));
  EXPECT_THAT(messages_with(memory_store(), 0, 3), ::testing::Not(warns));
  EXPECT_THAT(messages_with(nullptr, std::nullopt, std::nullopt), ::testing::Not(warns));
}

TEST(OwnStoreTest, ALoadPathIsANameInTheStoreForLoading) {
  const auto from = memory_store();
  TrainerOptions first = options("2ba");
  first.save_object_store = from;
  Trainer saving(std::move(first));
  saving.fit();
  const std::string path = saving.save_checkpoint("s3://ep{epoch}-ba{batch}");
  EXPECT_EQ(path, "s3://ep0-ba2");  // If a store is given, this path is a name like any other.

  TrainerOptions second = options("3ba");
  second.load_object_store = from;
  second.load_path = path;
  Trainer loaded(std::move(second));
  EXPECT_EQ(loaded.state().timestamp.batch, 2);
  EXPECT_TRUE(at::equal(testing::weights_of(*loaded.state().model),
                        testing::weights_of(*saving.state().model)));
}

TEST(OwnStoreTest, SaversInTwoStoresMayHaveOnePath) {
  const auto one = memory_store();
  const auto other = memory_store();
  TrainerOptions made = options("2ba");
  made.callbacks = {
      CheckpointSaver({.folder = "ckpt", .save_interval = "1ba", .store = one}),
      CheckpointSaver(
          {.folder = "ckpt", .save_interval = "2ba", .weights_only = true, .store = other})};
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_THAT(list_names(*one, "ckpt"),
              ElementsAre("ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt", "latest-rank0.pt"));
  EXPECT_THAT(list_names(*other, "ckpt"), ElementsAre("ep0-ba2-rank0.pt", "latest-rank0.pt"));
  EXPECT_THROW(Trainer([&] {
                 TrainerOptions same = options("2ba");
                 same.callbacks = {CheckpointSaver({.folder = "ckpt", .store = one}),
                                   CheckpointSaver({.folder = "./ckpt", .store = one})};
                 return same;
               }()),
               UsageError);
}

}  // namespace
}  // namespace cairn
