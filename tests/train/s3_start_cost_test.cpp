// Counts the HTTP requests of a start in a bucket.
#include <gtest/gtest.h>

#include "cairn/train/trainer.h"

#include "testing/aged_run.h"
#include "testing/fake_s3.h"
#include "testing/s3_environment.h"

namespace cairn {
namespace {

using testing::aged_run_file;
using testing::aged_run_name;
using testing::aged_run_options;

struct S3StartCostTest : ::testing::Test {
  static constexpr std::int64_t kBatches = 10'000;

  static std::string path_of(std::int64_t batch) { return "run/" + aged_run_name(batch); }

  S3StartCostTest() {
    for (std::int64_t batch = 1; batch < kBatches; ++batch) {
      fake.put_object("bucket/" + path_of(batch), "never looked into");
    }
    fake.put_object("bucket/" + path_of(kBatches), aged_run_file(kBatches, "s3://bucket/run"));
    fake.put_object("bucket/run/latest-rank0.pt.symlink", path_of(kBatches));
  }

  // Starts a run. Returns its requests, except listings and reads of the loaded checkpoint.
  std::vector<std::string> start() {
    TrainerOptions made = aged_run_options("10000ba");
    made.save_folder = "s3://bucket/run";
    fake.forget_log();
    Trainer trainer(std::move(made));
    EXPECT_EQ(trainer.state().timestamp.batch, kBatches);
    EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kAlreadyFinished);
    std::vector<std::string> others = fake.log();
    std::erase_if(others, [](const std::string& request) {
      return request.find("list-type=2") != std::string::npos ||
             request.find("uploads") != std::string::npos ||
             request == "GET /bucket/" + path_of(kBatches);
    });
    return others;
  }

  testing::FakeS3 fake;
  testing::S3Environment environment{fake};
};

TEST_F(S3StartCostTest, WithAGoodPointerItIsSixRequests) {
  EXPECT_LE(start().size(), 6U) << ::testing::PrintToString(fake.log());
}

TEST_F(S3StartCostTest, WithABrokenPointerItIsTwentyRequests) {
  fake.put_object("bucket/run/latest-rank0.pt.symlink", path_of(77'777));
  EXPECT_LE(start().size(), 20U) << ::testing::PrintToString(fake.log());
}

}  // namespace
}  // namespace cairn
