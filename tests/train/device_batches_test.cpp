// Batches on their way to a device. As in device_storage_test.cpp, the tests run on a simulated
// device and on the first CUDA device.

#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/train/data.h"

#include "testing/sim_device.h"
#include "train/data/device_copies.h"

namespace cairn {
namespace {

struct DeviceBatches : ::testing::TestWithParam<const char*> {
  void SetUp() override {
    if (is_cuda() && !torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    device = is_cuda() ? c10::Device(c10::kCUDA, 0) : testing::sim_device();
  }
  static bool is_cuda() { return std::string(GetParam()) == "Cuda"; }
  c10::Device device = c10::kCPU;
};

// Sample i is 100,000 numbers i.
class LargeSamples final : public SampleDataset {
 public:
  std::int64_t size() const override { return 64; }
  Batch get(std::int64_t index, std::int64_t /*epoch*/) const override {
    return {at::full({100'000}, index, at::kFloat), at::scalar_tensor(index, at::kLong)};
  }
};

// The memory of a batch is used again while the device may still have to read it.
TEST_P(DeviceBatches, HaveTheirSamplesThoughMemoryIsUsedAgain) {
  const std::shared_ptr<const Dataset> rows = tensor_dataset(
      {at::arange(64, at::kFloat).unsqueeze(1).repeat({1, 100'000}), at::arange(64)});
  for (const auto& dataset : {rows, std::shared_ptr<const Dataset>(new LargeSamples())}) {
    for (const int workers : {0, 2}) {
      DataLoader loader(dataset, {.batch_size = 8, .num_workers = workers});
      loader.set_device(device);
      loader.start_epoch(0, 0);
      std::vector<Batch> placed;
      while (std::optional<Batch> batch = loader.next()) {
        EXPECT_EQ((*batch)[0].is_pinned(), is_cuda());
        placed.push_back(to_device(std::move(*batch), device));
      }
      ASSERT_EQ(placed.size(), 8U);
      for (std::size_t i = 0; i < placed.size(); ++i) {
        const at::Tensor expected = at::arange(8) + 8 * static_cast<std::int64_t>(i);
        EXPECT_EQ(placed[i][0].device(), device);
        EXPECT_TRUE(at::equal(placed[i][1].cpu(), expected)) << "batch " << i;
        EXPECT_TRUE(at::equal(placed[i][0].cpu(),
                              expected.to(at::kFloat).unsqueeze(1).expand({8, 100'000})))
            << "batch " << i;
      }
    }
  }
}

TEST_P(DeviceBatches, OfADeviceWithOneStreamArriveToo) {
  if (is_cuda()) GTEST_SKIP() << "has several streams";
  const Batch placed = to_device({at::arange(4)}, testing::sim_device_without_side_streams());
  EXPECT_TRUE(at::equal(placed[0].cpu(), at::arange(4)));
}

// The memory of the simulated device is the host's, so a test sees what its streams have done.
std::int64_t first_of(const Batch& placed) {
  return *static_cast<const std::int64_t*>(placed[0].data_ptr());
}

TEST(DeviceCopies, BeginBeforeEarlierWorkIsDone) {
  const c10::Device device = testing::sim_device();
  bool is_done = false;
  testing::run_on_sim_device([&] { is_done = true; });
  testing::hurry_sim_side_streams(true);
  const Batch placed = to_device({at::full({3}, 7, at::kLong)}, device);
  testing::hurry_sim_side_streams(false);
  EXPECT_EQ(first_of(placed), 7);
  EXPECT_FALSE(is_done);
  placed[0].cpu();
  EXPECT_TRUE(is_done);
}

TEST(DeviceCopies, AreDoneBeforeLaterWorkAndTheHostWaitsForNothing) {
  const c10::Device device = testing::sim_device();
  const std::uint64_t waits = testing::sim_device_waits();
  const Batch placed = to_device({at::full({3}, 7, at::kLong)}, device);
  std::int64_t seen = 0;
  testing::run_on_sim_device([&] { seen = first_of(placed); });
  EXPECT_EQ(testing::sim_device_waits(), waits);
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
  EXPECT_EQ(seen, 7);
}

TEST(DeviceCopies, LeaveTensorsThatAreThereAsTheyAre) {
  const at::Tensor there = at::empty({3}, testing::sim_device());
  EXPECT_TRUE(to_device({there}, testing::sim_device())[0].is_same(there));
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceBatches, ::testing::Values("Simulated", "Cuda"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace cairn
