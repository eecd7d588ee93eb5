// The main job on a GPU, in each precision. Killed and started again, it ends with the bits of an
// undisturbed run. Skipped without a GPU.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>

#include "cairn/checkpoint/checkpoint.h"

#include "digits_job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::accuracy_in;
using testing::DigitsJob;
using testing::Flags;
using testing::TempFolder;
using testing::operator+;

const Flags kOnGpu = {"--device",        "gpu", "--deterministic-mode", "--max-duration", "3ep",
                      "--save-interval", "7ba"};

class DigitsOnGpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device here";
  }
  static Flags flags() { return kOnGpu + Flags{"--precision", GetParam()}; }
  // The final weights of an undisturbed run.
  static const Value& straight_weights() {
    static std::map<std::string, Value> weights;
    const auto [found, is_new] = weights.try_emplace(GetParam());
    if (is_new) {
      const TempFolder folder;
      const DigitsJob job(folder.path(), flags());
      EXPECT_GE(accuracy_in(job.finish()), 0.9);
      found->second = load(job.weights());
    }
    return found->second;
  }
};

INSTANTIATE_TEST_SUITE_P(Precisions, DigitsOnGpu, ::testing::Values("fp32", "amp_fp16", "amp_bf16"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(DigitsOnGpu, KilledAtSeveralBatchesEndsWithTheSameBits) {
  const TempFolder folder;
  const DigitsJob job(folder.path(), flags());
  for (const int batch : {3, 28, testing::kDigitsBatchesPerEpoch, 100})
    job.kill_at(batch);
  const std::string output = job.finish();
  EXPECT_NE(output.find("going on from"), std::string::npos) << output;
  EXPECT_EQ(load(job.weights()), straight_weights());
}

TEST_P(DigitsOnGpu, KilledAtRandomEndsWithTheSameBits) {
  const TempFolder folder;
  const DigitsJob job(folder.path(), flags());
  job.kill_at_random(6);
  job.finish();
  EXPECT_EQ(load(job.weights()), straight_weights());
}

TEST_P(DigitsOnGpu, InPlaceItGoesOnWithTheSameBits) {
  const TempFolder folder;
  const DigitsJob job(folder.path(), flags() + Flags{"--load-in-place"});
  job.kill_at(60);
  const std::string output = job.finish();
  EXPECT_NE(output.find("going on from"), std::string::npos) << output;
  EXPECT_EQ(load(job.weights()), straight_weights());
}

// Not with the same bits: the two compute differently.
TEST_P(DigitsOnGpu, WhatAGpuSavedTheProcessorGoesOnFromAndTheOtherWayRound) {
  const Flags on_processor = {"--device",        "cpu", "--max-duration", "3ep",
                              "--save-interval", "7ba", "--precision",    "fp32"};
  for (const bool is_gpu_first : {true, false}) {
    const TempFolder folder;
    const DigitsJob on_gpu(folder.path(), flags());
    const DigitsJob here(folder.path(), on_processor);
    (is_gpu_first ? on_gpu : here).kill_at(60);
    const std::string output = (is_gpu_first ? here : on_gpu).finish();
    EXPECT_NE(output.find("going on from"), std::string::npos) << output;
    EXPECT_GE(accuracy_in(output), 0.9) << output;
  }
}

}  // namespace
}  // namespace cairn
