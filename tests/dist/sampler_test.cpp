#include "cairn/dist/sampler.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

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
    const DistributedSampler sampler(expected["size"], {.num_replicas = expected["num_replicas"],
                                                        .rank = expected["rank"],
                                                        .shuffle = expected["shuffle"],
                                                        .seed = expected["seed"],
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
  loader.load_state_dict(loader_of(0).state_dict());  // the ranks share one checkpoint
  DataLoader alone(tensor_dataset(at::arange(7)), {.batch_size = 2});
  EXPECT_THAT(message_of<MismatchError>([&] { loader.load_state_dict(alone.state_dict()); }),
              HasSubstr("num_replicas: none in the checkpoint, 2 here"));
  EXPECT_THAT(message_of<MismatchError>([&] { alone.load_state_dict(loader.state_dict()); }),
              HasSubstr("num_replicas: 2 in the checkpoint, none here"));
}

}  // namespace
}  // namespace cairn
