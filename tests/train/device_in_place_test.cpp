// Weights of a device that are read in place: what is copied to them while the rest is read. As
// device_storage_test.cpp on a simulated device, which works as late as it may, and on CUDA's
// first.

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <numeric>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/model.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "io/parallel.h"
#include "testing/pattern.h"
#include "testing/sim_device.h"
#include "testing/temp_folder.h"
#include "train/state/device_storage.h"
#include "train/state/in_place.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kBufferBytes = 4 * kMiB;  // of which a lane has two

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

// Weights of a device, and what they are to become.
struct PlacedWeights {
  PlacedWeights(c10::Device device, const std::vector<std::size_t>& sizes) {
    saved.reserve(sizes.size());  // so that what is looked at stays
    for (const std::size_t size : sizes) {
      saved.push_back(testing::pattern(size));
      saved.back().front() = static_cast<char>(saved.size());
      live.push_back(bytes_on(device, size, 7));
      in_place.on_devices.push_back({storage_of({as_bytes(saved.back()), nullptr}),
                                     live.back().storage(), live.back().storage().data()});
    }
  }

  // Puts [begin, end) of one.
  void put(const PutBytes& put, const std::vector<StorageRead>& reads, std::size_t which,
           std::size_t begin, std::size_t end) const {
    put(reads[which].into.subspan(begin, end - begin),
        as_bytes(saved[which]).subspan(begin, end - begin));
  }
  void expect_saved() const {
    for (std::size_t i = 0; i < saved.size(); ++i) {
      ASSERT_TRUE(text_of(live[i]) == saved[i]) << i;
    }
  }

  std::vector<std::string> saved;
  std::vector<at::Tensor> live;
  InPlace in_place;
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

// Small ones and large ones, in pieces of many sizes, in no order and from several threads; on a
// stream that has yet to write to them.
TEST_P(DeviceInPlaceTest, PiecesComeInAnyOrderFromSeveralThreads) {
  const c10::StreamGuard on_stream(
      c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
  std::vector<std::size_t> sizes = {20 * kMiB + 1, 1, 3 * kMiB};
  for (std::size_t i = 0; i < 300; ++i) {
    sizes.push_back(100 * i + 1);
  }
  const PlacedWeights weights(device, sizes);
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
  weights.in_place.fill([&](const std::vector<StorageRead>& reads, const PutBytes& put) {
    const auto put_one = [&](std::size_t i) {
      const Part& part = parts[i * 7 % parts.size()];  // each once: no multiple of 7
      weights.put(put, reads, part.which, part.begin, part.end);
    };
    ASSERT_NE(parts.size() % 7, 0);
    for_each_parallel(parts.size(), put_one, std::numeric_limits<std::uint64_t>::max(), 12);
  });
  weights.expect_saved();
}

TEST_P(DeviceInPlaceTest, WhatIsOfTheHostIsMemory) {
  PlacedWeights weights(device, {1000});
  const std::string saved = testing::pattern(500);
  at::Tensor live = at::zeros({500}, at::kByte);
  weights.in_place.on_host.push_back(
      {storage_of({as_bytes(saved), nullptr}), live.storage(), live.storage().data()});
  int calls = 0;
  weights.in_place.fill([&](const std::vector<StorageRead>& reads, const PutBytes& put) {
    ++calls;
    ASSERT_EQ(reads.size(), 1);
    if (!put) return reads[0].storage->read_into(0, reads[0].into);
    weights.put(put, reads, 0, 0, 1000);
  });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(text_of(live), saved);
  weights.expect_saved();
}

// --- What a real device does not do at will ------------------------------------------------------

// The simulated device has done nothing yet of what it got when the next is read; and one that is
// quick has it long before all is read.
TEST(DeviceInPlaceSimulated, TheNextIsReadWhileTheDeviceIsAtWork) {
  for (const bool is_quick : {false, true}) {
    const PlacedWeights weights(testing::sim_device(), {64 * kMiB});
    text_of(weights.live[0]);  // waits for what fills it
    const auto* const memory = static_cast<const char*>(weights.in_place.on_devices[0].data);
    testing::hurry_sim_side_streams(is_quick);
    weights.in_place.fill([&](const std::vector<StorageRead>& reads, const PutBytes& put) {
      const std::uint64_t waits = testing::sim_device_waits();
      const auto has_first_buffer = [&] {
        return std::memcmp(memory, weights.saved[0].data(), kBufferBytes) == 0;
      };
      for (std::size_t at = 0; at < 64 * kMiB; at += kMiB) {
        weights.put(put, reads, 0, at, at + kMiB);
        if (at == 4 * kMiB) {  // one more than a buffer has
          EXPECT_EQ(testing::sim_device_waits(), waits);
          EXPECT_EQ(has_first_buffer(), is_quick);
        }
        if (at == 8 * kMiB) {
          EXPECT_TRUE(has_first_buffer()) << "its buffer is used again";
        }
      }
    });
    testing::hurry_sim_side_streams(false);
    EXPECT_TRUE(std::memcmp(memory, weights.saved[0].data(), 64 * kMiB) == 0) << "it has waited";
  }
}

TEST(DeviceInPlaceSimulated, AReadThatFailsIsThrownWhenTheDeviceIsDone) {
  const PlacedWeights weights(testing::sim_device(), {32 * kMiB, 32 * kMiB});
  text_of(weights.live[0]);
  const auto read = [&](const std::vector<StorageRead>& reads, const PutBytes& put) {
    weights.put(put, reads, 1, 0, kBufferBytes + 1);
    throw StorageError("the disk is gone", ENODEV);
  };
  try {
    weights.in_place.fill(read);
    FAIL() << "no error";
  } catch (const StorageError& e) {
    EXPECT_EQ(e.status(), ENODEV);
  }
  // What it was given it has, without any further wait: nothing is under way out of the buffers.
  EXPECT_EQ(std::memcmp(weights.in_place.on_devices[1].data, weights.saved[1].data(), kBufferBytes),
            0);
  weights.in_place.fill([&](const std::vector<StorageRead>& reads, const PutBytes& put) {
    for (const std::size_t which : {0, 1}) {
      weights.put(put, reads, which, 0, 32 * kMiB);
    }
  });
  weights.expect_saved();
}

struct FewWeights final : Model {
  FewWeights(c10::Device device, float value) {
    for (const char* name : {"large", "small", "smaller"}) {
      const std::int64_t size = *name == 'l' ? 5 << 20 : 1000;  // 20 MiB
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
  EXPECT_GE(failures, 5);  // 20 MiB, 4 at a time at most
}

}  // namespace
}  // namespace cairn
