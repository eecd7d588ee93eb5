// The guides' examples with object stores, in a bucket of the strict fake server. With a real
// server (tests/net/with_radosgw), which the environment names, they use its bucket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/optim/optimizers.h"
#include "cairn/storage/stores.h"

#include "composer_guide/guide.h"
#include "storage/listing.h"
#include "testing/s3_environment.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::tiny_loader;

struct GuideRemote : ::testing::Test {
  GuideRemote() {
    if (getenv("S3_ENDPOINT_URL") == nullptr) {
      fake.emplace();
      environment.emplace(*fake);
    }
    fs::current_path(folder.path());
  }
  ~GuideRemote() override {
    fs::current_path(before);
    for (const std::string& name : names("")) {  // a real server is there for the next test, too
      const auto store = object_store_of("s3://bucket");
      if (!store->remove_folder("s3://bucket/" + name)) store->remove("s3://bucket/" + name);
    }
  }
  static guide::Model model() { return std::make_shared<testing::TinyModel>(); }
  static std::vector<std::string> names(const std::string& where) {
    const auto store = object_store_of("s3://bucket");
    const std::string place = "s3://bucket/" + where;
    return store->stat(place) ? list_names(*store, place) : std::vector<std::string>();
  }
  static std::int64_t epoch_of(const std::string& name) {
    return open_checkpoint("s3://bucket/" + name).info().timestamp.value().epoch;
  }

  testing::TempFolder folder;
  const fs::path before = fs::current_path();
  std::optional<testing::FakeS3> fake;
  std::optional<testing::S3Environment> environment;
};

TEST_F(GuideRemote, CheckpointsAreSavedInABucketAndLoadedFromIt) {
  guide::save_in_a_bucket(model(), tiny_loader(10), "bucket");
  EXPECT_THAT(names("checkpoints"), ::testing::SizeIs(11));  // ten checkpoints, and latest
  EXPECT_THAT(names("checkpoints"), Contains("ep3.pt"));
  EXPECT_EQ(epoch_of("checkpoints/ep3.pt"), 3);
  EXPECT_TRUE(fs::is_empty(folder.path()));  // no local files
  EXPECT_EQ(guide::load_from_a_store(model(), tiny_loader(10), "bucket"), 1);
  EXPECT_EQ(guide::load_with_hparams(model(), tiny_loader(10), "bucket"), 1);
  EXPECT_EQ(guide::load_from_a_uri(model(), tiny_loader(10), "bucket"), 1);
}

TEST_F(GuideRemote, ALoggerUploadsThemAndTheyAreRemovedHere) {
  guide::upload_with_a_logger(model(), tiny_loader(10), "bucket");
  EXPECT_THAT(names("checkpoints"), ::testing::SizeIs(11));
  EXPECT_THAT(list_names(*local_store(), "checkpoints"), IsEmpty());
}

TEST_F(GuideRemote, ARunIsResumedFromTheBucketOfItsLogger) {
  EXPECT_EQ(guide::resume_from_a_bucket(model(), tiny_loader(10), "bucket", "4ep"), 0);
  fs::remove_all("checkpoints");  // as on another machine
  EXPECT_EQ(guide::resume_from_a_bucket(model(), tiny_loader(10), "bucket", "10ep"), 4);
  EXPECT_EQ(epoch_of("checkpoints/latest-rank0.pt"), 10);
}

TEST_F(GuideRemote, AFineTuningRunBeginsFromTheWeightsAndGoesOnFromTheBucket) {
  guide::save_in_a_bucket(model(), tiny_loader(10), "bucket");
  save(load("s3://bucket/checkpoints/ep10.pt"), "pretrained_weights/model.pt");
  object_store_of("s3://bucket")->remove_folder("s3://bucket/checkpoints");
  EXPECT_EQ(guide::fine_tune_with_a_logger(model(), tiny_loader(10), "bucket"), 0);
  fs::remove_all("checkpoints");
  EXPECT_EQ(guide::fine_tune_with_a_logger(model(), tiny_loader(10), "bucket"), 10);
}

TEST_F(GuideRemote, TheRunDirectoryOfOlderReleasesIsUploaded) {
  guide::upload_the_run_directory(model(), tiny_loader(10), "bucket");
  EXPECT_THAT(names("my_run/rank_0"), ElementsAre("checkpoints"));
  EXPECT_THAT(names("my_run/rank_0/checkpoints"), Contains("ep1.pt"));
}

}  // namespace
}  // namespace cairn
