#include "cairn/train/batch.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "cairn/error.h"

#include "train/data/data_spec.h"

namespace cairn {
namespace {

TEST(Batch, GivesTensorsByPositionAndByName) {
  const Batch pair = {at::zeros({2}), at::ones({2})};
  EXPECT_EQ(pair[1].sum().item<float>(), 2);
  EXPECT_FALSE(pair.is_named());
  const Batch named = Batch::named({{"input_ids", at::zeros({2, 3})}, {"labels", at::ones({2})}});
  EXPECT_EQ(named["labels"].numel(), 2);
  EXPECT_EQ(named.find("mask"), nullptr);
  EXPECT_EQ(named[0].dim(), 2);
}

TEST(Batch, AnErrorAboutAMissingTensorNamesTheExistingOnes) {
  const Batch pair = {at::zeros({2}), at::ones({2})};
  EXPECT_THROW(pair[2], UsageError);
  EXPECT_THROW(pair.single(), UsageError);
  try {
    Batch::named({{"x", at::zeros({1})}})["y"];
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("'y'"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("'x'"));
  }
  EXPECT_THROW(Batch::named({{"x", at::zeros({1})}, {"x", at::zeros({1})}}), UsageError);
}

TEST(DataSpec, CountsSamplesAndTokensOfABatch) {
  const DataSpec spec;
  EXPECT_EQ(num_samples_in_batch(spec, {at::zeros({3, 2}), at::zeros({3})}), 3);
  EXPECT_EQ(num_tokens_in_batch(spec, {at::zeros({3, 2})}), 0);
  const Batch text = Batch::named({{"input_ids", at::zeros({3, 5})}});
  EXPECT_EQ(num_tokens_in_batch(spec, text), 15);
  EXPECT_THROW(num_samples_in_batch(spec, {at::zeros({3}), at::zeros({2})}), UsageError);
  EXPECT_THROW(num_samples_in_batch(spec, at::scalar_tensor(1)), UsageError);
  EXPECT_THROW(num_samples_in_batch(spec, Batch()), UsageError);
}

TEST(DataSpec, AsksItsOwnFunctionsFirst) {
  DataSpec spec;
  spec.get_num_samples_in_batch = [](const Batch&) { return 7; };
  spec.get_num_tokens_in_batch = [](const Batch&) { return 70; };
  EXPECT_EQ(num_samples_in_batch(spec, Batch()), 7);
  EXPECT_EQ(num_tokens_in_batch(spec, Batch()), 70);
}

TEST(DataSpec, SplitsIntoConsecutivePartsWithASmallerLastOne) {
  const Batch batch = Batch::named({{"x", at::arange(5)}, {"y", at::arange(5) * 10}});
  const std::vector<Batch> parts = split_batch(DataSpec(), batch, 2);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_TRUE(at::equal(parts[1]["y"], at::tensor({20, 30}, at::kLong)));
  EXPECT_EQ(parts[2]["x"].size(0), 1);
}

TEST(DataSpec, TheFirstSamplesAreThoseOfTheFirstPart) {
  const Batch batch = Batch::named({{"x", at::arange(5)}});
  DataSpec spec;
  // first_samples() must not ask for the number of samples: it may fail for this batch.
  spec.get_num_samples_in_batch = [](const Batch&) -> std::int64_t {
    throw UsageError("not of this batch");
  };
  EXPECT_TRUE(at::equal(first_samples(spec, batch, 2)["x"], at::arange(2)));
  spec.split_batch = [](const Batch& whole, std::int64_t size) {
    return std::vector<Batch>{whole.map([&](const at::Tensor& t) { return t.narrow(0, 1, size); })};
  };
  EXPECT_TRUE(at::equal(first_samples(spec, batch, 2)["x"], at::arange(1, 3)));
}

}  // namespace
}  // namespace cairn
