// Reads straight into a device's memory: pieces are copied to the device while the rest is read. As
// in device_storage_test.cpp, the tests run on a simulated device, which works as late as it may,
// and on the first CUDA device.

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <limits>
#include <numeric>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/model.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "io/threads/parallel.h"
#include "testing/pattern.h"
#include "testing/sim_device.h"
#include "testing/temp_folder.h"
#include "train/state/device/device_storage.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kBufferBytes = 4 * kMiB;  // Each lane has two buffers.

at::Tensor bytes_on(c10::Device device, std::size_t size, int fill) {
  at::Tensor made =
      at::empty({static_cast<std::int64_t>(size)}, at::TensorOptions(at::kByte).device(device));
  made.fill_(fill);
  return made;
}

std::string text_of(const at::Tensor& bytes) {
  const at::Tensor host = bytes.cpu();
  return std::string(static_cast<const char*>(host.data_ptr()), host.nbytes());
}

// Weights on a device, and the weights that replace them.
struct DeviceWeights {
  DeviceWeights(c10::Device device, const std::vector<std::size_t>& sizes) {
    saved.reserve(sizes.size());  // So that views stay valid.
    for (const std::size_t size : sizes) {
      saved.push_back(testing::pattern(size));
      saved.back().front() = static_cast<char>(saved.size());
      live.push_back(bytes_on(device, size, 7));
      memory.push_back(live.back().storage());
    }
  }

  const std::byte* begin_of(std::size_t which) const {
    return static_cast<const std::byte*>(memory[which].data());
  }
  // Writes the bytes [begin, end) of one weight.
  void write(DeviceWrites& writes, std::size_t which, std::size_t begin, std::size_t end) const {
    const ByteView bytes = as_bytes(saved[which]).subspan(begin, end - begin);
    ASSERT_TRUE(writes.has(begin_of(which) + begin));
    writes.write(begin_of(which) + begin, bytes);
  }
  void expect_saved() const {
    for (std::size_t i = 0; i < saved.size(); ++i) {
      ASSERT_TRUE(text_of(live[i]) == saved[i]) << i;
    }
  }

  std::vector<std::string> saved;
  std::vector<at::Tensor> live;
  std::vector<c10::Storage> memory;
};

class DeviceInPlaceTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const bool is_cuda = std::string(GetParam()) == "Cuda";
    if (is_cuda && !torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    device = is_cuda ? c10::Device(c10::kCUDA, 0) : testing::sim_device();
  }

  c10::Device device = c10::kCPU;
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceInPlaceTest, ::testing::Values("Simulated", "Cuda"),
                         [](const auto& test) { return test.param; });

// Small and large weights, in pieces of many sizes, in any order and from several threads. Work
// that writes to the weights is still enqueued on the current stream.
TEST_P(DeviceInPlaceTest, PiecesComeInAnyOrderFromSeveralThreads) {
  const c10::StreamGuard on_stream(
      c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
  std::vector<std::size_t> sizes = {20 * kMiB + 1, 1, 3 * kMiB};
  for (std::size_t i = 0; i < 300; ++i) {
    sizes.push_back(100 * i + 1);
  }
  const DeviceWeights weights(device, sizes);
  struct Part {
    std::size_t which;
    std::size_t begin;
    std::size_t end;
  };
  std::vector<Part> parts;
  for (std::size_t which = 0; which < sizes.size(); ++which) {
    const std::size_t step = which % 3 == 0 ? 6 * kMiB : which % 3 == 1 ? 700 : 100'000;
    for (std::size_t begin = 0; begin < sizes[which]; begin += step) {
      parts.push_back({which, begin, std::min(begin + step, sizes[which])});
    }
  }
  DeviceWrites writes(weights.memory);
  const auto write_one = [&](std::size_t i) {
    // Writes each part once, because the count is no multiple of 7.
    const Part& part = parts[i * 7 % parts.size()];
    weights.write(writes, part.which, part.begin, part.end);
  };
  ASSERT_NE(parts.size() % 7, 0);
  for_each_parallel(parts.size(), write_one, std::numeric_limits<std::uint64_t>::max(), 12);
  writes.finish();
  weights.expect_saved();
}

TEST_P(DeviceInPlaceTest, AddressesOfOtherMemoryAreNotItsOwn) {
  const DeviceWeights weights(device, {1000, 2000});
  DeviceWrites writes({weights.memory[1]});
  const std::string other = testing::pattern(500);
  EXPECT_FALSE(writes.has(as_bytes(other).data()));
  EXPECT_FALSE(writes.has(weights.begin_of(0)));
  EXPECT_FALSE(writes.has(weights.begin_of(1) - 1));
  EXPECT_FALSE(writes.has(weights.begin_of(1) + 2000));
  EXPECT_TRUE(writes.has(weights.begin_of(1) + 1999));
  weights.write(writes, 1, 0, 2000);
  writes.finish();
  EXPECT_EQ(text_of(weights.live[1]), weights.saved[1]);
  EXPECT_EQ(text_of(weights.live[0]), std::string(1000, 7));
}

// --- Behaviour that a real device shows only by chance -------------------------------------------

// The simulated device has done nothing yet when the next piece is read. A quick device is done
// long before everything is read.
TEST(DeviceInPlaceSimulated, TheNextIsReadWhileTheDeviceIsAtWork) {
  for (const bool is_quick : {false, true}) {
    const DeviceWeights weights(testing::sim_device(), {64 * kMiB});
    text_of(weights.live[0]);  // Waits until the weights are filled.
    const std::byte* const memory = weights.begin_of(0);
    testing::hurry_sim_side_streams(is_quick);
    DeviceWrites writes(weights.memory);
    const std::uint64_t waits = testing::sim_device_waits();
    const auto has_first_buffer = [&] {
      return std::memcmp(memory, weights.saved[0].data(), kBufferBytes) == 0;
    };
    for (std::size_t at = 0; at < 64 * kMiB; at += kMiB) {
      weights.write(writes, 0, at, at + kMiB);
      if (at == 4 * kMiB) {  // One MiB more than fits into a buffer.
        EXPECT_EQ(testing::sim_device_waits(), waits);
        EXPECT_EQ(has_first_buffer(), is_quick);
      }
      if (at == 8 * kMiB) {
        EXPECT_TRUE(has_first_buffer()) << "its buffer is used again";
      }
    }
    writes.finish();
    testing::hurry_sim_side_streams(false);
    EXPECT_TRUE(std::memcmp(memory, weights.saved[0].data(), 64 * kMiB) == 0) << "it has waited";
  }
}

TEST(DeviceInPlaceSimulated, WhoGivesUpWaitsUntilTheDeviceIsDone) {
  const DeviceWeights weights(testing::sim_device(), {32 * kMiB, 32 * kMiB});
  text_of(weights.live[0]);
  {
    DeviceWrites writes(weights.memory);
    weights.write(writes, 1, 0, kBufferBytes + 1);
  }
  // No further wait is needed: no copy from the buffers is pending.
  EXPECT_EQ(std::memcmp(weights.begin_of(1), weights.saved[1].data(), kBufferBytes), 0);
  DeviceWrites writes(weights.memory);
  for (const std::size_t which : {0, 1}) {
    weights.write(writes, which, 0, 32 * kMiB);
  }
  writes.finish();
  weights.expect_saved();
}

struct FewWeights final : Model {
  FewWeights(c10::Device device, float value) {
    for (const char* name : {"large", "small", "smaller"}) {
      const std::int64_t size = *name == 'l' ? 5 << 20 : 1000;  // 20 MiB.
      at::Tensor made = at::empty({size}, at::TensorOptions(at::kFloat).device(device));
      made.fill_(value);
      net->register_buffer(name, made);
    }
  }
  torch::nn::Module& module() override { return *net; }
  Outputs forward(const Batch& /*batch*/) override { return {}; }
  Losses loss(const Outputs& /*outputs*/, const Batch& /*batch*/) override { return {}; }
  bool has_all(float value) const {
    for (const at::Tensor& tensor : net->buffers()) {
      if (!tensor.cpu().eq(value).all().item<bool>()) return false;
    }
    return true;
  }
  std::shared_ptr<torch::nn::Module> net = std::make_shared<torch::nn::Module>();
};

TEST(DeviceInPlaceSimulated, ACopyThatFailsSaysWhatItCostAndTheNextLoadWorks) {
  const TempFolder folder;
  State made;
  made.model = std::make_shared<FewWeights>(c10::kCPU, 1);
  const std::string path = save_checkpoint(made, folder / "w.pt", {.weights_only = true});
  int failures = 0;
  for (std::uint64_t n = 1;; ++n) {
    State state;
    const auto model = std::make_shared<FewWeights>(testing::sim_device(), 2);
    state.model = model;
    Logger logger(state);
    const LoadCheckpointOptions in_place = {.load_weights_only = true, .in_place = true};
    testing::fail_sim_copy(n);
    try {
      load_checkpoint(path, state, logger, in_place);
      testing::fail_sim_copy(0);
      EXPECT_TRUE(model->has_all(1));
      break;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("a copy failed"), HasSubstr("are lost")));
      ++failures;
    }
    load_checkpoint(path, state, logger, in_place);
    EXPECT_TRUE(model->has_all(1)) << n;
  }
  EXPECT_GE(failures, 5);  // 20 MiB are copied, at most 4 MiB at a time.
}

}  // namespace
}  // namespace cairn
