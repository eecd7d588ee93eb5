#include "cairn/dist/sampler.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "cairn/error.h"
#include "cairn/train/data.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

using cairn::testing::kData;
using cairn::testing::message_of;
using cairn::testing::read_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Numbers = std::vector<std::int64_t>;

TEST(DistributedSampler, GivesPythonsIndices) {
  const auto cases = nlohmann::json::parse(read_file(kData + "/sampler/distributed_sampler.json"));
  ASSERT_GT(cases.size(), 100U);
  for (const auto& expected : cases) {
    const DistributedSampler sampler(expected["size"],
                                     {.num_replicas = expected["num_replicas"].get<std::int64_t>(),
                                      .rank = expected["rank"].get<std::int64_t>(),
                                      .shuffle = expected["shuffle"],
                                      .seed = expected["seed"].get<std::int64_t>(),
                                      .drop_last = expected["drop_last"]});
    const Numbers indices = sampler.indices(expected["epoch"]);
    EXPECT_EQ(indices, expected["indices"].get<Numbers>()) << expected;
    EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(indices.size())) << expected;
  }
}

TEST(DistributedSampler, SaysWhichSamplesAreThereTwice) {
  for (std::int64_t size = 1; size <= 12; ++size) {
    for (std::int64_t replicas = 1; replicas <= 5; ++replicas) {
      std::multiset<std::int64_t> counted;
      for (std::int64_t rank = 0; rank < replicas; ++rank) {
        const DistributedSampler sampler(size, {.num_replicas = replicas, .rank = rank});
        const Numbers indices = sampler.indices(4);
        ASSERT_LE(sampler.num_repeated(), sampler.size());
        counted.insert(indices.begin(), indices.end() - sampler.num_repeated());
      }
      EXPECT_EQ(counted.size(), static_cast<std::size_t>(size)) << size << " " << replicas;
      EXPECT_EQ(std::set<std::int64_t>(counted.begin(), counted.end()).size(), counted.size());
    }
  }
}

TEST(DistributedSampler, RefusesARankThatIsNone) {
  EXPECT_THAT(message_of<UsageError>([] { DistributedSampler(4, {.num_replicas = 2, .rank = 2}); }),
              HasSubstr("rank 2 is not in 0 to"));
}

std::vector<Numbers> epoch_of(DataLoaderBase& loader, std::int64_t epoch, std::int64_t first = 0) {
  loader.start_epoch(epoch, first);
  std::vector<Numbers> batches;
  while (std::optional<Batch> batch = loader.next()) {
    const at::Tensor t = batch->single().contiguous();
    batches.emplace_back(t.data_ptr<std::int64_t>(), t.data_ptr<std::int64_t>() + t.numel());
  }
  return batches;
}

DataLoader loader_of(std::int64_t rank, DataLoaderOptions options = {.batch_size = 2}) {
  options.sampler = DistributedSamplerOptions{.num_replicas = 2, .rank = rank, .shuffle = false};
  return DataLoader(tensor_dataset(at::arange(7)), options);
}

TEST(DataLoaderOfARank, HasItsPartOfTheSamples) {
  DataLoader loader = loader_of(1);
  EXPECT_THAT(epoch_of(loader, 0), ElementsAre(Numbers{1, 3}, Numbers{5, 0}));
  EXPECT_EQ(loader.num_batches(), 2);
  EXPECT_EQ(loader.num_samples(), 4);
  EXPECT_EQ(loader.num_repeated(), 1);
  EXPECT_TRUE(loader.is_of_rank());
  EXPECT_EQ(loader_of(0).num_repeated(), 0);
}

TEST(DataLoaderOfARank, GoesOnInsideAnEpoch) {
  for (const int workers : {0, 2}) {
    DataLoader loader = loader_of(0, {.batch_size = 1, .num_workers = workers});
    EXPECT_THAT(epoch_of(loader, 2, 2), ElementsAre(Numbers{4}, Numbers{6}));
  }
}

TEST(DataLoaderOfARank, LeavesTheShuffleToItsSampler) {
  EXPECT_THAT(message_of<UsageError>([] { loader_of(0, {.batch_size = 1, .shuffle = true}); }),
              HasSubstr("shuffle and seed are those of the sampler"));
}

TEST(DataLoaderOfARank, KnowsWhoItsCheckpointWasMadeFor) {
  DataLoader loader = loader_of(1);
  loader.load_state_dict(loader_of(0).state_dict());  // The ranks share one checkpoint.
  DataLoader alone(tensor_dataset(at::arange(7)), {.batch_size = 2});
  EXPECT_THAT(message_of<MismatchError>([&] { loader.load_state_dict(alone.state_dict()); }),
              HasSubstr("num_replicas: none in the checkpoint, 2 here"));
  EXPECT_THAT(message_of<MismatchError>([&] { alone.load_state_dict(loader.state_dict()); }),
              HasSubstr("num_replicas: 2 in the checkpoint, none here"));
}

// The loaders of a job of `ranks` ranks. Each rank has its own batches.
struct Loaders {
  Loaders(std::int64_t samples, std::int64_t ranks, DataLoaderOptions options) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      options.sampler = DistributedSamplerOptions{.num_replicas = ranks, .rank = rank, .seed = 3};
      if (ranks == 1) {  // One rank alone gets the same order without a sampler.
        options.sampler.reset();
        options.shuffle = true;
        options.seed = 3;
      }
      loaders.emplace_back(tensor_dataset(at::arange(samples)), options);
    }
  }
  // Returns, for each batch left in the epoch, the samples of all ranks together, sorted.
  std::vector<Numbers> rest() {
    std::vector<Numbers> batches;
    for (;;) {
      Numbers all;
      for (DataLoader& loader : loaders) {
        const std::optional<Batch> batch = loader.next();
        if (!batch) continue;
        const at::Tensor own = batch->single().contiguous();
        all.insert(all.end(), own.data_ptr<std::int64_t>(),
                   own.data_ptr<std::int64_t>() + own.numel());
      }
      if (all.empty()) return batches;
      std::ranges::sort(all);
      batches.push_back(std::move(all));
    }
  }
  std::vector<Numbers> epoch() {
    for (DataLoader& loader : loaders)
      loader.start_epoch(2, 0);
    return rest();
  }
  std::vector<DataLoader> loaders;
};

// Expects every sample of the epoch once, except the samples that are repeated to make the ranks'
// parts equal. If all ranks together have as many samples in a batch as before, expects the same
// batches, too.
void expect_to_go_on(Loaders& before, Loaders& after, std::int64_t samples) {
  const auto whole = before.epoch();
  const bool is_same_size =
      before.loaders.size() * static_cast<std::size_t>(*before.loaders[0].batch_size()) ==
      after.loaders.size() * static_cast<std::size_t>(*after.loaders[0].batch_size());
  for (std::size_t had = 0; had <= whole.size(); ++had) {
    std::int64_t position = -1;
    std::int64_t batches = -1;
    for (DataLoader& loader : after.loaders) {
      position =
          loader.samples_after(before.loaders[0].state_dict(), 0, static_cast<std::int64_t>(had))
              .value();
      batches = loader.continue_epoch(2, position);
    }
    const auto rest = after.rest();
    EXPECT_EQ(static_cast<std::int64_t>(rest.size()), batches);
    std::set<std::int64_t> seen;
    std::size_t count = 0;
    for (std::size_t i = 0; i < whole.size() + rest.size(); ++i) {
      if (i >= had && i < whole.size()) continue;
      const Numbers& batch = i < had ? whole[i] : rest[i - whole.size()];
      seen.insert(batch.begin(), batch.end());
      count += batch.size();
    }
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), samples);
    EXPECT_LT(count, seen.size() + before.loaders.size() + after.loaders.size());
    if (is_same_size && samples % 12 == 0) {
      EXPECT_EQ(rest, std::vector<Numbers>(whole.begin() + static_cast<std::ptrdiff_t>(had),
                                           whole.end()));
    }
  }
}

TEST(DataLoaderOfARank, GoesOnInAnEpochWithAnotherNumberOfRanks) {
  for (const std::int64_t samples : {12, 13, 24, 31}) {
    for (const std::int64_t before : {1, 2, 3, 4}) {
      for (const std::int64_t after : {1, 2, 3, 4}) {
        if (before == after) continue;
        SCOPED_TRACE(::testing::Message() << samples << " " << before << " " << after);
        for (const std::int64_t batch : {12 / after, std::int64_t{2}}) {
          Loaders first(samples, before, {.batch_size = 12 / before});
          Loaders second(samples, after, {.batch_size = batch});
          expect_to_go_on(first, second, samples);
        }
      }
    }
  }
}

// A job of three ranks continues exactly after the samples that it has trained, rank by rank.
TEST(DataLoaderOfARank, GoesOnOnceMoreWhereItsEpochWasDealtAnew) {
  Loaders first(31, 3, {.batch_size = 2});
  Loaders second(31, 3, {.batch_size = 2});
  for (DataLoader& loader : first.loaders)
    EXPECT_EQ(loader.continue_epoch(2, 8), 4);  // 23 samples.
  std::vector<Numbers> expected = first.rest();
  const Value saved = first.loaders[0].state_dict();
  for (DataLoader& loader : second.loaders) {
    EXPECT_EQ(loader.samples_after(saved, 8, 2), 20);
    EXPECT_EQ(loader.samples_after(saved, 8, 4), 31);
    loader.continue_epoch(2, 20);
  }
  EXPECT_EQ(second.rest(), std::vector<Numbers>(expected.begin() + 2, expected.end()));
}

TEST(DataLoaderOfARank, WhatTheNumberOfRanksDoesNotExplainIsAnotherLoader) {
  const DataLoader one(tensor_dataset(at::arange(12)), {.batch_size = 4, .shuffle = true});
  const auto after = [&](DataLoaderOptions options, std::int64_t samples = 12) {
    return DataLoader(tensor_dataset(at::arange(samples)), options)
        .samples_after(one.state_dict(), 0, 1);
  };
  const auto sampler = [](std::int64_t ranks, std::int64_t seed) {
    return DistributedSamplerOptions{.num_replicas = ranks, .rank = 0, .seed = seed};
  };
  EXPECT_EQ(after({.batch_size = 4, .shuffle = true}), 4);
  EXPECT_EQ(after({.batch_size = 1, .sampler = sampler(2, 0)}), 4);
  EXPECT_EQ(after({.batch_size = 2, .shuffle = true}), std::nullopt);
  EXPECT_EQ(after({.batch_size = 4}), std::nullopt);
  EXPECT_EQ(after({.batch_size = 2, .sampler = sampler(2, 1)}), std::nullopt);
  EXPECT_EQ(after({.batch_size = 2, .sampler = sampler(2, 0)}, 13), std::nullopt);
  EXPECT_EQ(after({.batch_size = 2, .drop_last = true, .sampler = sampler(2, 0)}), std::nullopt);
  EXPECT_EQ(one.samples_after(Dict{{"size", 12}}, 0, 1), std::nullopt);
  EXPECT_EQ(one.samples_after(None{}, 0, 1), std::nullopt);
}

}  // namespace
}  // namespace cairn
