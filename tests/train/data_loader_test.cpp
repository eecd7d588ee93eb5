#include <gmock/gmock.h>
#include <sys/resource.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <stdexcept>

#include "cairn/error.h"
#include "cairn/train/data.h"

#include "testing/message_of.h"
#include "train/data/prefetcher.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Numbers = std::vector<std::int64_t>;

std::shared_ptr<Dataset> numbers_to(std::int64_t n) { return tensor_dataset(at::arange(n)); }

std::vector<Numbers> rest_of(DataLoaderBase& loader) {
  std::vector<Numbers> batches;
  while (std::optional<Batch> batch = loader.next()) {
    const at::Tensor t = batch->single().contiguous();
    batches.emplace_back(t.data_ptr<std::int64_t>(), t.data_ptr<std::int64_t>() + t.numel());
  }
  return batches;
}

std::vector<Numbers> epoch_of(DataLoaderBase& loader, std::int64_t epoch, std::int64_t first = 0) {
  loader.start_epoch(epoch, first);
  return rest_of(loader);
}

TEST(DataLoader, KeepsTheOrderWithoutShuffle) {
  DataLoader loader(numbers_to(5), {.batch_size = 2});
  EXPECT_THAT(epoch_of(loader, 0), ElementsAre(Numbers{0, 1}, Numbers{2, 3}, Numbers{4}));
  EXPECT_EQ(loader.num_batches(), 3);
  EXPECT_EQ(loader.num_samples(), 5);
}

TEST(DataLoader, DropsAnIncompleteLastBatchWhenAsked) {
  DataLoader loader(numbers_to(5), {.batch_size = 2, .drop_last = true});
  EXPECT_THAT(epoch_of(loader, 0), ElementsAre(Numbers{0, 1}, Numbers{2, 3}));
  EXPECT_EQ(loader.num_batches(), 2);
  EXPECT_EQ(loader.num_samples(), 4);
}

// The order of torch.randperm(10, generator=torch.Generator().manual_seed(0)). Python's
// DistributedSampler(seed=0) has it in epoch 0, and DistributedSampler(seed=-3) in epoch 3.
TEST(DataLoader, ShufflesAsPythonsDistributedSampler) {
  const Numbers python = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2};
  DataLoader loader(numbers_to(10), {.batch_size = 10, .shuffle = true, .seed = 0});
  EXPECT_THAT(epoch_of(loader, 0), ElementsAre(python));
  EXPECT_NE(epoch_of(loader, 1)[0], python);
  DataLoader later(numbers_to(10), {.batch_size = 10, .shuffle = true, .seed = -3});
  EXPECT_THAT(epoch_of(later, 3), ElementsAre(python));
}

TEST(DataLoader, SeeksToWhatDroppingBatchesGives) {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(numbers_to(23),
                      {.batch_size = 3, .shuffle = true, .num_workers = workers, .seed = 9});
    const std::vector<Numbers> all = epoch_of(loader, 4);
    ASSERT_EQ(all.size(), 8U);
    for (std::size_t first = 0; first <= all.size(); ++first) {
      EXPECT_EQ(epoch_of(loader, 4, static_cast<std::int64_t>(first)),
                std::vector<Numbers>(all.begin() + static_cast<std::ptrdiff_t>(first), all.end()));
    }
    EXPECT_TRUE(epoch_of(loader, 4, 100).empty());
  }
}

TEST(DataLoader, OrderDoesNotDependOnThreads) {
  DataLoader plain(numbers_to(101), {.batch_size = 4, .shuffle = true});
  const std::vector<Numbers> expected = epoch_of(plain, 2);
  for (const int workers : {1, 2, 5}) {
    DataLoader threaded(numbers_to(101), {.batch_size = 4,
                                          .shuffle = true,
                                          .num_workers = workers,
                                          .prefetch_factor = workers == 2 ? 1 : 4});
    EXPECT_EQ(epoch_of(threaded, 2), expected) << workers << " workers";
  }
}

TEST(DataLoader, BeginsAnewInTheMiddleOfAnEpoch) {
  DataLoader loader(numbers_to(50), {.batch_size = 5, .shuffle = true, .num_workers = 2});
  const std::vector<Numbers> expected = epoch_of(loader, 1);
  loader.start_epoch(0, 0);
  ASSERT_TRUE(loader.next());
  EXPECT_EQ(epoch_of(loader, 1), expected);
}

TEST(DataLoader, MovesWhileItPrefetches) {
  DataLoader loader(numbers_to(6), {.batch_size = 2, .num_workers = 1});
  loader.start_epoch(0, 0);
  DataLoader moved = std::move(loader);
  EXPECT_EQ(rest_of(moved).size(), 3U);
}

TEST(DataLoader, LeavesTheGlobalGeneratorAlone) {
  torch::manual_seed(1);
  const at::Tensor before = at::rand(1);
  torch::manual_seed(1);
  DataLoader loader(numbers_to(20), {.batch_size = 2, .shuffle = true, .num_workers = 2});
  epoch_of(loader, 0);
  EXPECT_FALSE(loader.uses_global_rng());
  EXPECT_TRUE(at::equal(at::rand(1), before));
}

// A dataset in which each sample is its index plus a number that depends on the epoch.
class Augmented final : public Dataset {
 public:
  std::int64_t size() const override { return 9; }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    return get_batch_in_epoch(indices, 0);
  }
  Batch get_batch_in_epoch(std::span<const std::int64_t> indices,
                           std::int64_t epoch) const override {
    std::vector<at::Tensor> samples;
    for (const std::int64_t i : indices) {
      auto generator = at::detail::createCPUGenerator(sample_seed(7, epoch, i));
      samples.push_back(at::randint(1000, {1}, generator, at::kLong) + 1000 * i);
    }
    return at::cat(samples);
  }
};

TEST(DataLoader, TellsTheDatasetTheEpoch) {
  DataLoader loader(std::make_shared<Augmented>(), {.batch_size = 2});
  const std::vector<Numbers> first = epoch_of(loader, 0);
  const std::vector<Numbers> second = epoch_of(loader, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(second[0][0] / 1000, 0) << "the same sample with another number";
  EXPECT_EQ(epoch_of(loader, 0), first);
}

TEST(DataLoader, SamplesOfAnEpochDependOnNeitherThreadsNorPositionNorBatches) {
  DataLoader plain(std::make_shared<Augmented>(), {.batch_size = 3, .shuffle = true});
  const std::vector<Numbers> expected = epoch_of(plain, 5);
  for (const int workers : {1, 3}) {
    DataLoader threaded(std::make_shared<Augmented>(),
                        {.batch_size = 3, .shuffle = true, .num_workers = workers});
    threaded.start_epoch(4, 0);  // Forgets the batches that were fetched ahead.
    ASSERT_TRUE(threaded.next());
    EXPECT_EQ(epoch_of(threaded, 5), expected);
    EXPECT_EQ(epoch_of(threaded, 5, 2), (std::vector<Numbers>{expected[2]}));
  }
  DataLoader whole(std::make_shared<Augmented>(), {.batch_size = 9, .shuffle = true});
  Numbers joined;
  for (const Numbers& batch : expected)
    joined.insert(joined.end(), batch.begin(), batch.end());
  EXPECT_THAT(epoch_of(whole, 5), ElementsAre(joined));
}

TEST(SampleSeed, DiffersByEachArgumentAndNeverChanges) {
  EXPECT_EQ(sample_seed(17, 3, 5), sample_seed(17, 3, 5));
  std::set<std::uint64_t> seeds;
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t j = 0; j < 6; ++j) {
      for (std::int64_t k = 0; k < 6; ++k)
        seeds.insert(sample_seed(i, j, k));
    }
  }
  EXPECT_EQ(seeds.size(), 216U);
  EXPECT_EQ(sample_seed(17, 3, 5), 11146113535794455423U) << "runs could not be resumed exactly";
}

class FailingAt final : public Dataset {
 public:
  explicit FailingAt(std::int64_t index) : index_(index) {}
  std::int64_t size() const override { return 10; }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    for (const std::int64_t i : indices) {
      if (i == index_) throw std::runtime_error("no sample " + std::to_string(i));
    }
    return at::tensor(std::vector<std::int64_t>(indices.begin(), indices.end()));
  }

 private:
  std::int64_t index_;
};

TEST(DataLoader, ThrowsWhatTheDatasetThrewAtTheBatchWhereItDid) {
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<FailingAt>(5), {.batch_size = 2, .num_workers = workers});
    loader.start_epoch(0, 0);
    EXPECT_TRUE(loader.next());
    EXPECT_TRUE(loader.next());
    EXPECT_THROW(loader.next(), std::runtime_error);
    EXPECT_EQ(epoch_of(loader, 0, 3).size(), 2U) << "the loader can go on elsewhere";
  }
}

TEST(DataLoader, ShowsTheNextBatchWithoutChangingWhatItGives) {
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<FailingAt>(5), {.batch_size = 2, .num_workers = workers});
    loader.start_epoch(0, 0);
    const Batch* const first = loader.peek();
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(loader.peek(), first);
    const at::Tensor shown = first->single();
    EXPECT_TRUE(loader.next()->single().is_same(shown));
    EXPECT_TRUE(loader.next());
    EXPECT_EQ(loader.peek(), nullptr) << "this batch fails";
    EXPECT_THROW(loader.next(), std::runtime_error);
    ASSERT_NE(loader.peek(), nullptr);
    EXPECT_EQ(epoch_of(loader, 0, 3).size(), 2U) << "a new position forgets what was shown";
    EXPECT_EQ(loader.peek(), nullptr) << "after the last batch";
    loader.start_epoch(0, 2);
    EXPECT_EQ(loader.peek(), nullptr);
    EXPECT_EQ(epoch_of(loader, 0, 3).size(), 2U) << "and an error that was not thrown";
  }
}

TEST(DataLoader, RefusesOptionsThatCannotBe) {
  EXPECT_THROW(DataLoader(numbers_to(3), {.batch_size = 0}), UsageError);
  EXPECT_THROW(DataLoader(numbers_to(3), {.num_workers = -1}), UsageError);
  EXPECT_THROW(DataLoader(numbers_to(3), {.prefetch_factor = 0}), UsageError);
  EXPECT_THROW(DataLoader(numbers_to(3), {.batch_size = 4, .drop_last = true}), UsageError);
  EXPECT_THROW(DataLoader(nullptr), UsageError);
}

TEST(DataLoader, RefusesThePositionOfAnotherLoaderAndSaysWhatDiffers) {
  DataLoader saved(numbers_to(10), {.batch_size = 2, .shuffle = true, .seed = 1});
  DataLoader same(numbers_to(10), {.batch_size = 2, .shuffle = true, .num_workers = 3, .seed = 1});
  EXPECT_NO_THROW(same.load_state_dict(saved.state_dict()));
  DataLoader other(numbers_to(12), {.batch_size = 2, .shuffle = true, .seed = 2});
  try {
    other.load_state_dict(saved.state_dict());
    FAIL() << "no error";
  } catch (const MismatchError& error) {
    EXPECT_THAT(error.what(), HasSubstr("seed: 1 in the checkpoint, 2 here"));
    EXPECT_THAT(error.what(), HasSubstr("size: 10 in the checkpoint, 12 here"));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("batch_size")));
  }
  EXPECT_THROW(same.load_state_dict(Value("nonsense")), MismatchError);
}

TEST(DataLoader, IgnoresTheSeedWhenNothingIsShuffled) {
  DataLoader saved(numbers_to(10), {.batch_size = 2, .seed = 1});
  DataLoader other(numbers_to(10), {.batch_size = 2, .seed = 2});
  EXPECT_NO_THROW(other.load_state_dict(saved.state_dict()));
}

TEST(Prefetcher, KeepsAtMostItsCapacityAhead) {
  std::atomic<std::int64_t> fetched = 0;
  std::atomic<std::int64_t> delivered = 0;
  std::atomic<bool> too_far = false;
  Prefetcher prefetcher(/*workers=*/2, /*capacity=*/4);
  prefetcher.start(
      [&](std::int64_t number) -> Batch {
        if (number >= delivered + 4 + 1) too_far = true;
        ++fetched;
        return at::scalar_tensor(number, at::kLong);
      },
      0, 100);
  for (std::int64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(prefetcher.next()->single().item<std::int64_t>(), i);
    ++delivered;
  }
  EXPECT_FALSE(prefetcher.next());
  EXPECT_FALSE(too_far);
  EXPECT_EQ(fetched, 100);
}

// Limits the memory to what is mapped already plus `more_bytes`, until the end of this object. New
// threads need memory for their stacks.
class MemoryLimit {
 public:
  explicit MemoryLimit(rlim_t more_bytes) {
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    if (getrlimit(RLIMIT_AS, &before_) != 0) throw std::runtime_error("getrlimit");
    const auto page = static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
    const struct rlimit limit = {pages * page + more_bytes, before_.rlim_max};
    if (setrlimit(RLIMIT_AS, &limit) != 0) throw std::runtime_error("setrlimit");
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  struct rlimit before_ = {};
};

TEST(Prefetcher, WithoutAllOfItsThreadsIsAnErrorAndLeavesNone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs address space itself";
#endif
  DataLoader loader(numbers_to(10), {.batch_size = 2, .num_workers = 4000});
  {
    const MemoryLimit limit(64 << 20);
    EXPECT_THAT(testing::message_of<StorageError>([&] { loader.start_epoch(0, 0); }),
                HasSubstr("num_workers"));
  }
  EXPECT_NO_THROW(Prefetcher(2, 2));
}

TEST(TensorDataset, GivesCopiesOfRows) {
  const at::Tensor x = at::arange(6).reshape({3, 2});
  const auto dataset = tensor_dataset({x, at::arange(3)});
  const Numbers wanted = {2, 0};
  Batch batch = dataset->get_batch(wanted);
  EXPECT_TRUE(at::equal(batch[0], at::tensor({4, 5, 0, 1}, at::kLong).reshape({2, 2})));
  batch[0].fill_(-1);
  EXPECT_EQ(x.min().item<std::int64_t>(), 0);
  EXPECT_THROW(tensor_dataset({x, at::arange(4)}), UsageError);
  EXPECT_THROW(tensor_dataset({}), UsageError);
}

// --- Other loaders -------------------------------------------------------------------------------

TEST(IteratorLoader, DropsBatchesToSeek) {
  int begun = 0;
  const auto loader = iterator_loader(
      [&](std::int64_t epoch) -> BatchIterator {
        ++begun;
        auto next = std::make_shared<std::int64_t>(epoch * 10);
        return [next, end = epoch * 10 + 3]() -> std::optional<Batch> {
          if (*next == end) return std::nullopt;
          return at::full({1}, (*next)++, at::kLong);
        };
      },
      {.uses_global_rng = false});
  EXPECT_THAT(epoch_of(*loader, 2), ElementsAre(Numbers{20}, Numbers{21}, Numbers{22}));
  EXPECT_THAT(epoch_of(*loader, 1, 2), ElementsAre(Numbers{12}));
  EXPECT_TRUE(epoch_of(*loader, 1, 7).empty());
  EXPECT_EQ(begun, 3);
  EXPECT_EQ(loader->num_batches(), std::nullopt);
  EXPECT_FALSE(loader->next()) << "stays at its end";
}

TEST(FromTorchData, AdaptsALoaderAndReplaysItsOrderFromTheGlobalGenerator) {
  struct Rows : torch::data::Dataset<Rows> {
    torch::data::Example<> get(size_t index) override {
      return {at::full({1}, static_cast<std::int64_t>(index), at::kLong), at::zeros({1})};
    }
    torch::optional<size_t> size() const override { return 7; }
  };
  auto torch_loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      Rows().map(torch::data::transforms::Stack<>()), torch::data::DataLoaderOptions(2));
  const auto loader = from_torch_data(
      *torch_loader, [](const auto& example) { return Batch(example.data.flatten()); },
      {.num_batches = 4, .batch_size = 2});
  EXPECT_TRUE(loader->uses_global_rng());
  torch::manual_seed(3);
  const std::vector<Numbers> all = epoch_of(*loader, 0);
  ASSERT_EQ(all.size(), 4U);
  torch::manual_seed(3);
  EXPECT_EQ(epoch_of(*loader, 0, 1), std::vector<Numbers>(all.begin() + 1, all.end()));
  torch::manual_seed(4);
  EXPECT_NE(epoch_of(*loader, 0), all);
}

TEST(FromTorchData, BeginsAnewWhileWorkersFetch) {
  struct Rows : torch::data::Dataset<Rows> {
    torch::data::Example<> get(size_t index) override {
      return {at::full({1}, static_cast<std::int64_t>(index), at::kLong), at::zeros({1})};
    }
    torch::optional<size_t> size() const override { return 20; }
  };
  auto torch_loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Rows().map(torch::data::transforms::Stack<>()), torch::data::DataLoaderOptions(2).workers(2));
  const auto loader = from_torch_data(
      *torch_loader, [](const auto& example) { return Batch(example.data.flatten()); },
      {.num_batches = 10, .batch_size = 2});
  const std::vector<Numbers> all = epoch_of(*loader, 0);
  ASSERT_EQ(all.size(), 10U);
  for (const int left_after : {0, 1, 5, 10}) {
    loader->start_epoch(0, left_after);
    EXPECT_EQ(epoch_of(*loader, 0), all);
  }
}

}  // namespace
}  // namespace cairn
