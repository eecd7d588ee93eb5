#include <gmock/gmock.h>
#include <torch/torch.h>

#include <thread>

#include "cairn/error.h"
#include "cairn/train/data.h"

#include "testing/message_of.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

// A dataset of the samples that a function gives.
class GivenSamples final : public SampleDataset {
 public:
  using Get = std::function<Batch(std::int64_t index, std::int64_t epoch)>;
  GivenSamples(std::int64_t size, Get get) : size_(size), get_(std::move(get)) {}
  std::int64_t size() const override { return size_; }
  Batch get(std::int64_t index, std::int64_t epoch) const override { return get_(index, epoch); }

 private:
  std::int64_t size_;
  Get get_;
};

std::shared_ptr<Dataset> samples(std::int64_t size, GivenSamples::Get get) {
  return std::make_shared<GivenSamples>(size, std::move(get));
}

// Cuts, turns and scales an image: random by index and epoch.
Batch augmented(std::int64_t index, std::int64_t epoch) {
  auto generator = at::detail::createCPUGenerator(sample_seed(11, epoch, index));
  const at::Tensor image = at::rand({3, 9, 9}, generator, at::kDouble);
  const std::int64_t top = at::randint(3, {}, generator, at::kLong).item<std::int64_t>();
  return Batch::named({{"image", image.slice(1, top, top + 7).flip(2).mul(2)},
                       {"label", at::scalar_tensor(index, at::kLong)}});
}

std::vector<Batch> batches_of(DataLoaderBase& loader, std::int64_t epoch, std::int64_t first = 0) {
  std::vector<Batch> all;
  loader.start_epoch(epoch, first);
  while (std::optional<Batch> batch = loader.next())
    all.push_back(*batch);
  return all;
}

void expect_equal(const std::vector<Batch>& found, const std::vector<Batch>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].names(), expected[i].names());
    EXPECT_TRUE(at::equal(found[i][0], expected[i][0])) << "batch " << i;
    EXPECT_TRUE(at::equal(found[i][1], expected[i][1])) << "batch " << i;
  }
}

TEST(SampleDataset, StacksSamplesOfEveryKind) {
  const at::Tensor values = at::randn({4, 6}, at::kDouble);
  const auto dataset = samples(4, [&](std::int64_t i, std::int64_t) -> Batch {
    const at::Tensor row = values[i];
    const at::Tensor complex = at::complex(row, row.mul(3));
    return {row.to(at::kBFloat16),
            row.view({2, 3}).t(),
            at::scalar_tensor(i, at::kLong),
            row.gt(0),
            complex.conj(),
            at::imag(complex.conj()),
            at::empty({0, 3}),
            row.detach().clone().requires_grad_()};
  });
  const std::vector<std::int64_t> indices = {2, 0, 3};
  const Batch batch = dataset->get_batch(indices);
  std::vector<std::vector<at::Tensor>> expected(batch.size());
  for (const std::int64_t i : indices) {
    const Batch sample = static_cast<const SampleDataset&>(*dataset).get(i, 0);
    for (std::size_t k = 0; k < sample.size(); ++k)
      expected.at(k).push_back(sample[k]);
  }
  ASSERT_EQ(batch.size(), 8U);
  for (std::size_t k = 0; k < batch.size(); ++k) {
    const at::Tensor stacked = at::stack(expected[k]);
    EXPECT_EQ(batch[k].scalar_type(), stacked.scalar_type());
    EXPECT_EQ(batch[k].sizes(), stacked.sizes());
    EXPECT_TRUE(at::equal(batch[k], stacked)) << "tensor " << k;
    EXPECT_FALSE(batch[k].requires_grad());
  }
}

TEST(SampleDataset, GivesTheSameBatchesWithAnyNumberOfWorkersAndFromAnyPosition) {
  DataLoader plain(samples(23, augmented), {.batch_size = 4, .shuffle = true, .seed = 5});
  const std::vector<Batch> expected = batches_of(plain, 3);
  ASSERT_EQ(expected.size(), 6U);
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(samples(23, augmented),
                      {.batch_size = 4, .shuffle = true, .num_workers = workers, .seed = 5});
    loader.start_epoch(3, 0);
    ASSERT_TRUE(loader.next());  // Left early, with batches fetched ahead.
    for (std::size_t first = 0; first < expected.size(); ++first) {
      expect_equal(batches_of(loader, 3, static_cast<std::int64_t>(first)),
                   {expected.begin() + static_cast<std::ptrdiff_t>(first), expected.end()});
    }
  }
  EXPECT_FALSE(at::equal(batches_of(plain, 4)[0][0], expected[0][0])) << "another epoch";
}

TEST(SampleDataset, NamesASampleUnlikeTheOthersOfItsBatch) {
  const auto message = [](GivenSamples::Get get) {
    const auto dataset = samples(5, std::move(get));
    return message_of<UsageError>([&] {
      dataset->get_batch(std::vector<std::int64_t>{0, 1, 2, 3});
    });
  };
  EXPECT_THAT(message([](std::int64_t i, std::int64_t) {
                return at::zeros({3, i == 2 ? 5 : 4});
              }),
              AllOf(HasSubstr("sample 2 has Float of 3x5"), HasSubstr("get_batch()")));
  EXPECT_THAT(message([](std::int64_t i, std::int64_t) {
                return at::zeros({3}, i == 1 ? at::kInt : at::kFloat);
              }),
              HasSubstr("sample 1 has Int of 3"));
  EXPECT_THAT(message([](std::int64_t i, std::int64_t) {
                return i == 3 ? Batch{at::zeros({3}), at::zeros({3})} : Batch{at::zeros({3})};
              }),
              HasSubstr("sample 3 has other tensors"));
  EXPECT_THAT(message([](std::int64_t i, std::int64_t) -> Batch {
                return i == 1 ? at::Tensor() : at::zeros({3});
              }),
              HasSubstr("sample 1 has an undefined tensor"));
  EXPECT_THAT(message([](std::int64_t, std::int64_t) -> Batch { return at::Tensor(); }),
              HasSubstr("undefined"));
}

// A team of OpenMP threads for each worker would compete with the other workers' and with training.
TEST(SampleDataset, IsComputedByOneThreadInEachWorker) {
  std::atomic<int> most = 0;
  const auto dataset = samples(40, [&](std::int64_t, std::int64_t) {
    const int threads = at::get_num_threads();
    if (threads > most) most = threads;
    return at::zeros({1});
  });
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  DataLoader loader(dataset, {.batch_size = 4, .num_workers = 2});
  EXPECT_EQ(batches_of(loader, 0).size(), 10U);
  EXPECT_EQ(most, 1);
  EXPECT_EQ(at::get_num_threads(), 3) << "of the training thread";
  int other = 0;
  std::thread([&] { other = at::get_num_threads(); }).join();
  EXPECT_EQ(other, 3) << "of a thread that starts later";
  at::set_num_threads(before);
}

}  // namespace
}  // namespace cairn
