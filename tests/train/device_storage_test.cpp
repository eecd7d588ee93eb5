// Tensors of a device are saved, loaded and copied into snapshots while the device computes. All
// tests run on a simulated device, which works as late as it may, and on the first CUDA device if
// there is one.

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cerrno>
#include <thread>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/model.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/plan/save_pipeline.h"
#include "checkpoint/plan/snapshot.h"
#include "storage/local/local_store.h"
#include "testing/message_of.h"
#include "testing/sim_device.h"
#include "testing/storage_ranges.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;

constexpr std::int64_t kLarge = 5 << 20;  // Floats: 20 MiB, more than two staging buffers hold.

c10::Stream new_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

// The bytes of the elements in row-major order.
std::string bits_of(const TensorView& tensor) {
  const SharedBytes bytes = tensor.contiguous_bytes();
  return std::string(as_text(bytes.view));
}
std::string bits_of(const at::Tensor& tensor) { return bits_of(view_of(tensor.cpu())); }

at::Tensor filled(std::int64_t size, float value, c10::Device device) {
  at::Tensor made = at::empty({size}, at::TensorOptions(at::kFloat).device(device));
  made.fill_(value);
  return made;
}

// Whether all elements equal `expected`.
::testing::AssertionResult is_all(const Value& value, float expected) {
  const at::Tensor tensor = tensor_of(value.as_tensor());
  const bool is_so = tensor.numel() > 0 && tensor.eq(expected).all().item<bool>();
  if (is_so) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "it begins with " << tensor.flatten()[0].item<float>();
}

struct Net : torch::nn::Module {
  explicit Net(std::map<std::string, at::Tensor> parameters) {
    for (const auto& [name, tensor] : parameters) {
      register_parameter(name, tensor, tensor.is_floating_point());
    }
  }
};

struct NetModel final : Model {
  explicit NetModel(const std::map<std::string, at::Tensor>& parameters)
      : net(std::make_shared<Net>(parameters)) {}
  torch::nn::Module& module() override { return *net; }
  Outputs forward(const Batch& /*batch*/) override { return {}; }
  Losses loss(const Outputs& /*outputs*/, const Batch& /*batch*/) override { return {}; }
  std::shared_ptr<Net> net;
};

class DeviceStorageTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (is_cuda() && !torch::cuda::is_available()) {
      GTEST_SKIP() << "this libtorch, or this machine, has no CUDA device; the simulated one "
                      "goes through the same code";
    }
    device = is_cuda() ? c10::Device(c10::kCUDA, 0) : testing::sim_device();
  }
  static bool is_cuda() { return std::string(GetParam()) == "Cuda"; }

  c10::Device device = c10::kCPU;
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceStorageTest, ::testing::Values("Simulated", "Cuda"),
                         [](const auto& test) { return test.param; });

TEST_P(DeviceStorageTest, AViewKeepsWhereItsElementsLieAndWhoSharesThem) {
  const at::Tensor host = torch::arange(24, at::kFloat).reshape({4, 6});
  at::Tensor tensor = host.to(device);
  const TensorView whole = view_of(tensor);
  EXPECT_EQ(whole.storage->location(), device.str());
  EXPECT_FALSE(whole.storage->try_view());
  EXPECT_EQ(testing::wrong_range_of(*whole.storage), "");
  const TensorView transposed = view_of(tensor.t());
  const TensorView part = view_of(tensor.narrow(1, 2, 3).narrow(0, 1, 2));
  EXPECT_EQ(transposed.storage, whole.storage);
  EXPECT_EQ(part.storage, whole.storage);
  EXPECT_EQ(part.storage_offset, 8);
  tensor = at::Tensor();  // The views keep the memory.
  EXPECT_EQ(bits_of(whole), bits_of(host));
  EXPECT_EQ(bits_of(transposed), bits_of(host.t()));
  EXPECT_EQ(bits_of(part), bits_of(host.narrow(1, 2, 3).narrow(0, 1, 2)));
}

TEST_P(DeviceStorageTest, WhatIsSavedIsLoadedWithTheSameBits) {
  const std::map<std::string, at::Tensor> host = {
      {"large", torch::rand({kLarge})},         {"scalar", torch::scalar_tensor(3, at::kLong)},
      {"half", torch::rand({7}).to(at::kHalf)}, {"bool", torch::ones({3}, at::kBool)},
      {"empty", torch::empty({0, 4})},          {"medium", torch::rand({1 << 18})}};
  Dict saved;
  for (const auto& [name, tensor] : host) {
    saved.set(name, view_of(tensor.to(device)));
  }
  for (int i = 0; i < 1000; ++i) {  // Many small tensors share the buffers.
    saved.set(std::to_string(i), view_of(torch::full({i % 50 + 1}, i, at::kFloat).to(device)));
  }
  const TempFolder folder;
  save(saved, folder / "waited.pt");
  SavePipeline pipeline({.async = true, .store = local_store()});
  pipeline.submit({.value = saved, .path = folder / "behind.pt"});
  pipeline.wait();
  for (const char* name : {"waited.pt", "behind.pt"}) {
    const Value loaded = load(folder / name);
    EXPECT_EQ(loaded, Value(saved)) << name;
    for (const auto& [key, tensor] : host) {
      EXPECT_EQ(bits_of(loaded.at(key).as_tensor()), bits_of(tensor)) << name << ": " << key;
    }
  }
}

TEST_P(DeviceStorageTest, ASnapshotSeesAllThatWasEnqueuedBeforeAndNothingOfLater) {
  const c10::StreamGuard on_stream(new_stream(device));
  at::Tensor weight = filled(kLarge, 1, device);
  at::Tensor other = filled(100, 1, device);
  const Value live = Dict{{"weight", view_of(weight)}, {"other", view_of(other)}};
  Snapshotter snapshotter;
  std::vector<Value> taken;
  for (int step = 2; step < 5; ++step) {
    weight.fill_(step);
    other.fill_(step);
    taken.push_back(snapshotter.take(live));
  }
  weight.fill_(-1);
  other.fill_(-1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(is_all(taken[i].at("weight"), static_cast<float>(i) + 2));
    EXPECT_TRUE(is_all(taken[i].at("other"), static_cast<float>(i) + 2));
  }
  EXPECT_TRUE(is_all(live.at("weight"), -1));
}

// The reading thread's current stream is the default stream, which knows nothing about the training
// stream.
TEST_P(DeviceStorageTest, AnotherThreadSeesWhatTheStreamOfTheViewWasGiven) {
  Value live;
  at::Tensor weight;
  c10::Event filled_first(device.type());
  {
    const c10::StreamGuard on_one(new_stream(device));
    weight = filled(1000, 1, device);
    live = view_of(weight);
    filled_first.record(on_one.current_stream());
  }
  const c10::StreamGuard on_other(new_stream(device));
  filled_first.block(on_other.current_stream());
  ASSERT_EQ(view_of(weight).storage, live.as_tensor().storage);
  weight.fill_(2);
  std::thread([&] { EXPECT_TRUE(is_all(live, 2)); }).join();
}

TEST_P(DeviceStorageTest, SavesInTheBackgroundHoldWhatTrainingHadWhenTheyWereAskedFor) {
  const TempFolder folder;
  const c10::StreamGuard on_stream(new_stream(device));
  at::Tensor weight = filled(kLarge / 4, 0, device);
  at::Tensor bias = filled(10, 0, device);
  Net net({{"weight", weight}, {"bias", bias}});
  SavePipeline pipeline({.async = true, .store = local_store()});
  const torch::NoGradGuard no_grad;
  for (int step = 1; step <= 4; ++step) {
    weight.fill_(step);
    bias.fill_(step);
    pipeline.submit({.value = state_dict(net), .path = folder / std::to_string(step)});
    weight.fill_(-step);
    bias.fill_(-step);
  }
  pipeline.wait();
  for (int step = 1; step <= 4; ++step) {
    const Value loaded = load(folder / std::to_string(step));
    EXPECT_TRUE(is_all(loaded.at("weight"), static_cast<float>(step)));
    EXPECT_TRUE(is_all(loaded.at("bias"), static_cast<float>(step)));
    EXPECT_EQ(loaded.at("bias").as_tensor().storage->location(), device.str());
  }
}

TEST_P(DeviceStorageTest, SeveralThreadsRead) {
  std::vector<Value> values;
  for (int i = 0; i < 4; ++i) {
    values.emplace_back(view_of(filled(kLarge / 2, static_cast<float>(i), device)));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int again = 0; again < 3; ++again) {
        EXPECT_TRUE(is_all(values[i], static_cast<float>(i)));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_P(DeviceStorageTest, AModuleTakesASavedStateInPlaceWhoeverHasItsMemory) {
  const TempFolder folder;
  const at::Tensor host = torch::rand({30, 20});
  const at::Tensor large = torch::rand({kLarge});
  save(Dict{{"alone", view_of(host)},
            {"held", view_of(host)},
            {"part", view_of(host)},
            {"cast", view_of(host.to(at::kDouble))},
            {"large", view_of(large)}},
       folder / "w.pt");
  const auto fresh = [&](float value) { return filled(600, value, device).view({30, 20}); };
  at::Tensor held = fresh(2);
  const Value before = view_of(held);
  at::Tensor part = filled(2 * 600, 3, device).view({30, 40}).narrow(1, 5, 20);
  Net net({{"alone", fresh(1)},
           {"held", held},
           {"part", part},
           {"cast", fresh(4)},
           {"large", filled(kLarge, 5, device)}});
  load_state_dict(net, load(folder / "w.pt"));
  for (const auto& [name, tensor] : net.named_parameters().pairs()) {
    EXPECT_EQ(tensor.device(), device);
    EXPECT_TRUE(bits_of(tensor) == bits_of(name == "large" ? large : host)) << name;
  }
  // A view of live memory stays such a view.
  EXPECT_EQ(bits_of(before.as_tensor()), bits_of(host));
}

TEST_P(DeviceStorageTest, AModuleOfManySmallTensorsTakesASavedState) {
  const TempFolder folder;
  std::map<std::string, at::Tensor> live;
  std::map<std::string, at::Tensor> host;
  Dict saved;
  for (int i = 0; i < 3000; ++i) {
    const std::string name = "w" + std::to_string(i);
    host[name] = torch::rand({i % 37, 40}).to(i % 2 == 0 ? at::kFloat : at::kHalf);
    live[name] = host[name].to(device).fill_(0);
    saved.set(name, view_of(host[name]));
  }
  save(saved, folder / "w.pt");
  Net net(live);
  load_state_dict(net, load(folder / "w.pt"));
  for (const auto& [name, tensor] : net.named_parameters().pairs()) {
    ASSERT_EQ(tensor.device(), device);
    ASSERT_TRUE(bits_of(tensor) == bits_of(host[name])) << name;
  }
}

// Saves more than all staging buffers hold, so that each buffer is used again, with large and with
// small pieces.
TEST_P(DeviceStorageTest, EveryBufferIsUsedAgainWhenWhatWasInItHasArrived) {
  std::map<std::string, at::Tensor> host;
  for (int i = 0; i < 5; ++i) {
    host["large " + std::to_string(i)] = torch::rand({kLarge});
  }
  for (int i = 0; i < 5000; ++i) {
    host["small " + std::to_string(i)] = torch::rand({5000 + i});
  }
  std::map<std::string, at::Tensor> live;
  Dict state;
  for (const auto& [name, tensor] : host) {
    live[name] = filled(tensor.numel(), -1, device);
    state.set(name, view_of(tensor));
  }
  Net net(live);
  load_state_dict(net, state);
  Snapshotter snapshotter;
  const Value taken = snapshotter.take(state_dict(net));
  for (const auto& [name, tensor] : host) {
    ASSERT_TRUE(bits_of(taken.at(name).as_tensor()) == bits_of(tensor)) << name;
  }
}

// Weights that together need several buffers, and one that alone needs more than one.
std::map<std::string, at::Tensor> weights_on_host() {
  std::map<std::string, at::Tensor> host = {{"largest", torch::rand({kLarge * 2})},
                                            {"transposed", torch::rand({70, 30}).t()},
                                            {"empty", torch::empty({0, 4})},
                                            {"of another dtype", torch::rand({100})}};
  for (int i = 0; i < 4; ++i) {
    host["large " + std::to_string(i)] = torch::rand({kLarge / 2});
  }
  for (int i = 0; i < 200; ++i) {
    host["small " + std::to_string(i)] = torch::rand({i + 1});
  }
  return host;
}

Value weights_of(const std::map<std::string, at::Tensor>& host) {
  Dict model;
  for (const auto& [name, tensor] : host) {
    model.set(name, view_of(tensor));
  }
  return Dict{{"state", Dict{{"model", model}}}};
}

TEST_P(DeviceStorageTest, AnInPlaceLoadReadsIntoTheWeightsThatAreThere) {
  const TempFolder folder;
  const auto host = weights_on_host();
  save(weights_of(host), folder / "w.pt");
  std::map<std::string, at::Tensor> live;
  std::map<std::string, const void*> places;
  for (const auto& [name, tensor] : host) {
    const at::ScalarType type = name == "of another dtype" ? at::kDouble : at::kFloat;
    live[name] = torch::zeros_like(tensor, type).to(device);
    places[name] = live[name].data_ptr();
  }
  State state;
  state.model = std::make_shared<NetModel>(live);
  Logger logger(state);
  const c10::StreamGuard on_stream(new_stream(device));
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : live) {
    tensor.fill_(-1);  // Enqueued before the load; the values must not be seen after it.
  }
  load_checkpoint(folder / "w.pt", state, logger, {.load_weights_only = true, .in_place = true});
  for (const auto& [name, tensor] : live) {
    const at::Tensor expected = host.at(name).to(tensor.scalar_type());
    ASSERT_TRUE(bits_of(tensor) == bits_of(expected)) << name;
    const bool is_converted = name == "of another dtype";
    EXPECT_TRUE(is_converted || tensor.data_ptr() == places[name]) << name;
  }
}

TEST_P(DeviceStorageTest, AnInPlaceLoadOfADamagedFileSaysThatTheWeightsAreLost) {
  const TempFolder folder;
  const auto host = weights_on_host();
  save(weights_of(host), folder / "w.pt");
  std::string bytes = testing::read_file(folder / "w.pt");
  const Value saved = load(folder / "w.pt");
  bytes[saved.at("state").at("model").at("small 199").as_tensor().storage->source_offset()] ^= 1;
  testing::write_file(folder / "w.pt", bytes);
  std::map<std::string, at::Tensor> live;
  for (const auto& [name, tensor] : host) {
    live[name] = tensor.to(device);
  }
  State state;
  state.model = std::make_shared<NetModel>(live);
  Logger logger(state);
  EXPECT_THAT(message_of<CorruptError>([&] {
                load_checkpoint(folder / "w.pt", state, logger,
                                {.load_weights_only = true, .in_place = true});
              }),
              AllOf(HasSubstr("small 199"), HasSubstr("are lost")));
}

TEST_P(DeviceStorageTest, MemoryThatWasMadeSmallerIsAUsageError) {
  const at::Tensor tensor = filled(100, 1, device);
  const Value value = view_of(tensor);
  tensor.storage().unsafeGetStorageImpl()->set_nbytes(40);
  EXPECT_THAT(message_of<UsageError>([&] { value.as_tensor().storage->bytes(); }),
              HasSubstr("resized"));
}

// --- Behaviour that a real device shows only by chance -------------------------------------------

TEST(SimulatedDeviceTest, ASnapshotWaitsAFewTimesAndNotForEachTensor) {
  List tensors;
  for (int i = 0; i < 500; ++i) {
    tensors.emplace_back(view_of(filled(10, static_cast<float>(i), testing::sim_device())));
  }
  Snapshotter snapshotter;
  const std::uint64_t before = testing::sim_device_waits();
  const Value taken = snapshotter.take(tensors);
  EXPECT_LE(testing::sim_device_waits() - before, 2);
  EXPECT_EQ(taken, Value(tensors));
}

// The device concatenates small tensors if it can and has the memory. With a hundred separate
// copies in place of each copy, the CPU would be slower than the device.
TEST(SimulatedDeviceTest, ManySmallTensorsComeWithFewCopies) {
  List tensors;
  std::vector<at::Tensor> host;
  for (int i = 0; i < 20'000; ++i) {  // Some 13 MiB in all.
    host.push_back(torch::full({i % 331}, i, at::kFloat));
    tensors.emplace_back(view_of(host.back().to(testing::sim_device())));
  }
  Snapshotter snapshotter;
  Value taken;
  {
    const testing::SimGathering gathering;
    taken = snapshotter.take(tensors);
    EXPECT_GE(gathering.count(), 2);
    EXPECT_LE(gathering.count(), 20);
  }
  for (std::size_t i = 0; i < host.size(); ++i) {
    ASSERT_EQ(bits_of(taken.as_items()[i].as_tensor()), bits_of(host[i])) << i;
  }
  EXPECT_EQ(snapshotter.take(tensors), taken) << "one by one";
}

TEST(SimulatedDeviceTest, AFailureWhilePuttingTogetherIsAStorageErrorToo) {
  List tensors;
  for (int i = 0; i < 2000; ++i) {
    tensors.emplace_back(view_of(filled(1000, static_cast<float>(i), testing::sim_device())));
  }
  const testing::SimGathering gathering;
  Snapshotter snapshotter;
  for (std::uint64_t n = 1; n <= 4; ++n) {  // Concatenated and copied at least twice.
    testing::fail_sim_copy(n);
    EXPECT_THAT(message_of<StorageError>([&] { snapshotter.take(tensors); }),
                HasSubstr("a copy failed"))
        << n;
  }
  EXPECT_EQ(snapshotter.take(tensors), Value(tensors));
}

// The work is like a kernel that was enqueued after the copies, but that the device runs before
// them.
TEST(SimulatedDeviceTest, WhatIsEnqueuedWhileASnapshotIsTakenIsNotSeen) {
  const c10::Device device = testing::sim_device();
  at::Tensor weight = filled(kLarge, 1, device);
  const Value live = view_of(weight);
  const c10::Stream training = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  testing::run_on_sim_device([&] {
    const c10::StreamGuard on_training(training);
    weight.fill_(2);
  });
  Snapshotter snapshotter;
  const Value taken = snapshotter.take(live);
  EXPECT_TRUE(is_all(taken, 1));
  EXPECT_TRUE(is_all(live, 2));
}

TEST(SimulatedDeviceTest, BothSideStreamsWaitForWhatIsComputed) {
  at::Tensor weight = filled(kLarge, 1, testing::sim_device());
  const Value live = view_of(weight);
  Snapshotter snapshotter;
  ASSERT_TRUE(is_all(snapshotter.take(live), 1));
  weight.fill_(2);
  testing::hurry_sim_side_streams(true);
  const Value taken = snapshotter.take(live);
  testing::hurry_sim_side_streams(false);
  EXPECT_TRUE(is_all(taken, 2));
}

TEST(SimulatedDeviceTest, ACopyThatFailsIsAStorageErrorAndTheNextSaveWorks) {
  const TempFolder folder;
  const Value value = view_of(filled(kLarge, 1, testing::sim_device()));
  save(value, folder / "w.pt");
  SavePipeline pipeline({.async = true, .store = local_store()});
  for (std::uint64_t n = 1; n <= 3; ++n) {  // 20 MiB are copied, at most 4 MiB at a time.
    for (const bool async : {false, true}) {
      testing::fail_sim_copy(n);
      try {
        async ? pipeline.submit({.value = value, .path = folder / "w.pt"})
              : save(value, folder / "w.pt");
        FAIL() << "copy " << n << " failed unnoticed";
      } catch (const StorageError& e) {
        EXPECT_EQ(e.status(), EIO);
        EXPECT_THAT(e.what(), HasSubstr("privateuseone:0"));
        EXPECT_THAT(e.what(), HasSubstr("a copy failed"));
      }
      EXPECT_TRUE(is_all(load(folder / "w.pt"), 1));
      pipeline.submit({.value = value, .path = folder / "again.pt"});
      pipeline.wait();
      EXPECT_TRUE(is_all(load(folder / "again.pt"), 1));
    }
  }
}

// A load makes copies to the device, on the device, and of the old elements. Whichever copy fails,
// either all is loaded or nothing.
TEST(SimulatedDeviceTest, ALoadThatFailsAtAnyCopyChangesNothing) {
  const c10::Device device = testing::sim_device();
  const TempFolder folder;
  const at::Tensor host = torch::rand({600});
  const at::Tensor large = torch::rand({kLarge});  // Copied to the device in pieces.
  save(Dict{{"alone", view_of(host)}, {"held", view_of(host)}, {"large", view_of(large)}},
       folder / "w.pt");
  int failures = 0;
  for (std::uint64_t n = 1;; ++n) {
    const at::Tensor held = filled(600, 2, device);
    // This view keeps the memory of `held`, so that memory cannot be replaced.
    const Value view = view_of(held);
    Net net(
        {{"alone", filled(600, 1, device)}, {"held", held}, {"large", filled(kLarge, 3, device)}});
    const Value state = load(folder / "w.pt");
    testing::fail_sim_copy(n);
    try {
      load_state_dict(net, state);
      testing::fail_sim_copy(0);
      EXPECT_EQ(bits_of(net.named_parameters()["alone"]), bits_of(host));
      EXPECT_EQ(bits_of(view.as_tensor()), bits_of(host));
      EXPECT_TRUE(bits_of(net.named_parameters()["large"]) == bits_of(large));
      break;
    } catch (const c10::Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("a copy failed"));
      ++failures;
    }
    EXPECT_TRUE(is_all(view_of(net.named_parameters()["alone"].detach()), 1)) << n;
    EXPECT_TRUE(is_all(view, 2)) << n;
    EXPECT_TRUE(is_all(view_of(net.named_parameters()["large"].detach()), 3)) << n;
  }
  // There are seven copies to the device, one that sets the old elements aside, and one that puts
  // the new elements in place.
  EXPECT_GE(failures, 9);
}

TEST(SimulatedDeviceTest, WhatCannotBeCopiedIsRefusedBeforeAnythingIsWritten) {
  const at::Tensor meta = torch::empty({3}, at::TensorOptions(at::kFloat).device(c10::kMeta));
  EXPECT_THAT(message_of<UsageError>([&] { view_of(meta); }), HasSubstr("no elements"));
  const at::Tensor odd = filled(3, 1, testing::sim_device_without_side_streams());
  EXPECT_THAT(message_of<UsageError>([&] { view_of(odd); }),
              AllOf(HasSubstr("privateuseone:1"), HasSubstr("save its .cpu()")));
}

}  // namespace
}  // namespace cairn
