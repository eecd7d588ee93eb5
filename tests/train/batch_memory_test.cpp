#include "train/data/batch_memory.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <thread>

#include "cairn/train/data.h"

#include "count_allocations.h"

namespace cairn {
namespace {

// Rows of a table whose row i is filled with i.
std::shared_ptr<Dataset> table(std::int64_t rows, std::int64_t columns) {
  return tensor_dataset({at::arange(rows).unsqueeze(1).repeat({1, columns}), at::arange(rows)});
}

// As table(), sample by sample.
class TableSamples final : public SampleDataset {
 public:
  std::int64_t size() const override { return 96; }
  Batch get(std::int64_t index, std::int64_t /*epoch*/) const override {
    return {at::full({500}, index, at::kLong), at::scalar_tensor(index, at::kLong)};
  }
};

TEST(BatchMemory, IsUsedAgainWhenNoTensorRefersToIt) {
  BatchMemory memory;
  at::Tensor first = memory.empty({4, 5}, at::kFloat);
  EXPECT_TRUE(first.is_contiguous());
  EXPECT_EQ(first.sizes(), (at::IntArrayRef{4, 5}));
  EXPECT_EQ(first.scalar_type(), at::kFloat);
  void* const place = first.data_ptr();
  at::Tensor view = first[2];
  first = at::Tensor();
  EXPECT_NE(memory.empty({4, 5}, at::kFloat).data_ptr(), place) << "a view still has it";
  view = at::Tensor();
  EXPECT_EQ(memory.empty({3, 13}, at::kHalf).data_ptr(), place) << "as much, rounded up";
  EXPECT_EQ(memory.empty({0, 13}, at::kHalf).numel(), 0);
}

TEST(BatchMemory, IsFreedByTheLastTensorIfTheLoaderIsGone) {
  auto memory = std::make_unique<BatchMemory>();
  at::Tensor kept = memory->empty({1000}, at::kLong).fill_(7);
  memory.reset();
  EXPECT_EQ(kept.sum().item<std::int64_t>(), 7000);
  std::thread([moved = std::move(kept)]() mutable { moved = at::Tensor(); }).join();
}

TEST(BatchMemory, GrowsWithATensorThatIsResized) {
  BatchMemory memory;
  at::Tensor tensor = memory.empty({100}, at::kInt).fill_(3);
  void* const place = tensor.data_ptr();
  tensor.resize_({100'000});
  EXPECT_EQ(tensor.slice(0, 0, 100).sum().item<std::int64_t>(), 300);
  EXPECT_EQ(memory.empty({100}, at::kInt).data_ptr(), place);
  tensor.fill_(1);
  EXPECT_EQ(tensor.sum().item<std::int64_t>(), 100'000);
}

TEST(BatchMemory, IsPinnedOnlyIfLibtorchCan) {
  BatchMemory memory;
  memory.pin();
  const at::Tensor tensor = memory.empty({100}, at::kInt).fill_(3);
  EXPECT_EQ(tensor.is_pinned(), torch::cuda::is_available());
  EXPECT_EQ(memory.is_pinned(), torch::cuda::is_available());
  const at::Tensor other = at::arange(5);
  const at::Tensor pinned = memory.pinned(other);
  EXPECT_TRUE(at::equal(pinned, other));
  EXPECT_EQ(pinned.is_pinned(), torch::cuda::is_available());
}

// Checks that batches which are kept, whole or as a view, have their samples at the end.
void expect_kept(DataLoader& loader, std::int64_t batch_size) {
  std::vector<Batch> kept;
  std::vector<at::Tensor> views;
  loader.start_epoch(0, 0);
  for (std::optional<Batch> batch; (batch = loader.next());) {
    kept.push_back(kept.size() % 2 == 0 ? *batch : Batch());
    views.push_back((*batch)[0].select(1, 3));
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto first = static_cast<std::int64_t>(i) * batch_size;
    const at::Tensor expected = at::arange(first, first + batch_size);
    EXPECT_TRUE(at::equal(views[i], expected)) << "batch " << i;
    if (kept[i].empty()) continue;
    EXPECT_TRUE(at::equal(kept[i][1], expected)) << "batch " << i;
  }
}

TEST(BatchMemory, OfABatchThatIsKeptIsNotOverwritten) {
  for (const int workers : {0, 2}) {
    const DataLoaderOptions options{.batch_size = 8, .num_workers = workers};
    DataLoader rows(table(96, 500), options);
    expect_kept(rows, 8);
    DataLoader samples(std::make_shared<TableSamples>(), options);
    expect_kept(samples, 8);
  }
}

// Places of the first tensor of each batch, while two batches are kept at a time, as in training.
std::set<const void*> places_of(DataLoader& loader, std::int64_t epochs) {
  std::set<const void*> places;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    loader.start_epoch(epoch, 0);
    Batch current;
    for (std::optional<Batch> batch; (batch = loader.next());) {
      current = std::move(*batch);
      places.insert(current[0].data_ptr());
    }
  }
  return places;
}

TEST(BatchMemory, IsNotAllocatedAfterTheFirstBatches) {
  for (const std::shared_ptr<const Dataset>& dataset :
       {std::shared_ptr<const Dataset>(table(96, 500)),
        std::shared_ptr<const Dataset>(std::make_shared<TableSamples>())}) {
    DataLoader plain(dataset, {.batch_size = 8});
    EXPECT_LE(places_of(plain, 5).size(), 2U);
    DataLoader threaded(dataset, {.batch_size = 8, .num_workers = 2, .prefetch_factor = 2});
    // 4 fetched ahead, one that training has, and one that it drops.
    EXPECT_LE(places_of(threaded, 5).size(), 6U);
  }
}

std::size_t allocations_of_a_batch(std::int64_t batch_size) {
  DataLoader loader(table(8 * batch_size, 100), {.batch_size = batch_size});
  loader.start_epoch(0, 0);
  loader.next();
  loader.next();
  const std::size_t before = allocations_so_far();
  loader.next();
  return allocations_so_far() - before;
}

TEST(BatchMemory, RowsOfTensorsAllocateEquallyOftenForBatchesOfEverySize) {
  const std::size_t allocations = allocations_of_a_batch(4);
  EXPECT_EQ(allocations_of_a_batch(2000), allocations);
  EXPECT_LE(allocations, 24U) << "handles of two tensors, their storages and the indices";
}

}  // namespace
}  // namespace cairn
