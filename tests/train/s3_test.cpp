// A Trainer whose save folder is a bucket works as with a local folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/optim/optimizers.h"
#include "cairn/storage/stores.h"
#include "cairn/train/trainer.h"

#include "storage/listing.h"
#include "testing/resumable_state.h"
#include "testing/s3_environment.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::resumable_state;

class TrainerOnS3Test : public ::testing::Test {
 protected:
  static TrainerOptions options(const std::string& duration, const std::string& folder) {
    TrainerOptions made = testing::tiny_options();
    made.optimizers = AdamW({.lr = 0.01});
    made.max_duration = duration;
    made.run_name = "r";
    made.save_folder = "s3://bucket/{run_name}/" + folder;
    made.save_interval = "1ba";
    made.autoresume = true;
    made.seed = 3;
    return made;
  }

  testing::FakeS3 fake_;
  testing::S3Environment environment_{fake_};
};

TEST_F(TrainerOnS3Test, SavesAndResumes) {
  Trainer(options("4ba", "straight")).fit();
  Trainer(options("2ba", "run")).fit();
  Trainer resumed(options("4ba", "run"));
  EXPECT_EQ(resumed.state().timestamp.batch, 2);
  resumed.fit();
  resumed.close();
  const auto store = object_store_of("s3://bucket");
  EXPECT_THAT(list_names(*store, "s3://bucket/r/run"),
              ElementsAre("ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt", "ep0-ba3-rank0.pt",
                          "ep0-ba4-rank0.pt", "latest-rank0.pt"));
  EXPECT_EQ(fake_.object("bucket/r/run/latest-rank0.pt.symlink"), "r/run/ep0-ba4-rank0.pt")
      << "as Composer writes it";
  EXPECT_EQ(resumable_state(load("s3://bucket/r/run/latest-rank0.pt")),
            resumable_state(load("s3://bucket/r/straight/latest-rank0.pt")));
  EXPECT_EQ(fake_.uploads(), 0U);
}

TEST_F(TrainerOnS3Test, LoadsFromAnother) {
  Trainer(options("2ba", "first")).fit();
  TrainerOptions made = options("3ba", "second");
  made.load_path = "s3://bucket/r/first/ep0-ba2-rank0.pt";
  Trainer loaded(std::move(made));
  EXPECT_EQ(loaded.state().timestamp.batch, 2);
}

TEST_F(TrainerOnS3Test, AServerThatFailsNowAndThenIsNoMatter) {
  testing::HttpReply slow_down = {
      .status = 503, .body = "<Error><Code>SlowDown</Code></Error>", .closes = true};
  fake_.answer_next("PUT", slow_down, 2);
  fake_.answer_next("HEAD", {.sends_at_most = 0}, 2);
  Trainer(options("2ba", "run")).fit();
  EXPECT_EQ(load("s3://bucket/r/run/latest-rank0.pt").is_dict(), true);
}

TEST_F(TrainerOnS3Test, NoSecretIsInACheckpoint) {
  Trainer(options("1ba", "run")).fit();
  for (const auto& [path, bytes] : fake_.objects()) {
    EXPECT_EQ(bytes.find("canary"), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace cairn
