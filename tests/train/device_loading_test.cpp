// Loads of a checkpoint whose tensors go to a device. The tensors are read straight into the
// device's memory, and either all of the checkpoint is loaded or nothing. As in
// device_storage_test.cpp, the tests run on a simulated device and on the first CUDA device.

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/model.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "testing/message_of.h"
#include "testing/sim_device.h"
#include "testing/temp_folder.h"
#include "train/state/device/device_storage.h"
#include "train/state/device/device_targets.h"
#include "train/state/device/staging.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;
using Tensors = std::map<std::string, at::Tensor>;

struct GivenModel final : Model {
  explicit GivenModel(const Tensors& parameters) {
    for (const auto& [name, tensor] : parameters) {
      net->register_parameter(name, tensor);
    }
  }
  torch::nn::Module& module() override { return *net; }
  Outputs forward(const Batch& /*batch*/) override { return {}; }
  Losses loss(const Outputs& /*outputs*/, const Batch& /*batch*/) override { return {}; }
  std::shared_ptr<torch::nn::Module> net = std::make_shared<torch::nn::Module>();
};

// Some tensors that share a buffer, and one that needs several buffers.
Tensors weights(float first, c10::Device device = c10::kCPU) {
  Tensors made = {{"large", torch::arange(5 << 20, at::kFloat) + first},
                  {"transposed", (torch::arange(2100, at::kFloat) + first).view({70, 30}).t()},
                  {"scalar", torch::scalar_tensor(first)}};
  for (int i = 0; i < 50; ++i) {
    made["small " + std::to_string(i)] = torch::arange(i * 31 + 1, at::kFloat) + first;
  }
  for (auto& [name, tensor] : made) {
    tensor = tensor.to(device);
  }
  return made;
}

void expect_weights(const GivenModel& model, float first) {
  for (const auto& [name, tensor] : weights(first)) {
    EXPECT_TRUE(model.net->named_parameters()[name].cpu().equal(tensor)) << name;
  }
}

struct GivenState : State {
  GivenState(c10::Device where, float first) {
    model = std::make_shared<GivenModel>(weights(first, where));
    optimizer = std::make_shared<torch::optim::AdamW>(model->module().parameters());
  }
};

// Adds the path and the bits of every tensor of a tree.
void add_bits(const Value& value, const std::string& path,
              std::map<std::string, std::string>& all) {
  if (value.is_tensor()) {
    const SharedBytes bytes = value.as_tensor().contiguous_bytes();
    all[path] = as_text(bytes.view);
  } else if (value.is_dict()) {
    for (const auto& [key, part] : value.as_dict()) {
      add_bits(part, path + "/" + (key.is_str() ? key.as_str() : ""), all);
    }
  }
}
std::map<std::string, std::string> bits_of(const State& state) {
  std::map<std::string, std::string> all;
  add_bits(state_dict(state.model->module()), "model", all);
  const Value optimizer = optimizer_state_dict(*state.optimizer, state.model->module());
  add_bits(optimizer.at("state"), "optimizer", all);
  return all;
}

class DeviceLoadingTest : public ::testing::TestWithParam<const char*> {
 protected:
  DeviceLoadingTest() {
    // Saves from the CPU, where tensors can be computed with.
    GivenState saved(c10::kCPU, 1);
    for (at::Tensor parameter : saved.model->module().parameters()) {
      parameter.mutable_grad() = torch::full_like(parameter, 0.5F);
    }
    saved.optimizer->step();
    save_checkpoint(saved, path);
    expected = bits_of(saved);
  }
  void SetUp() override {
    const bool is_cuda = std::string(GetParam()) == "Cuda";
    if (is_cuda && !torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    device = is_cuda ? c10::Device(c10::kCUDA, 0) : testing::sim_device();
  }

  TempFolder folder;
  std::string path = folder / "saved.pt";
  std::map<std::string, std::string> expected;
  c10::Device device = c10::kCPU;
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceLoadingTest, ::testing::Values("Simulated", "Cuda"),
                         [](const auto& test) { return test.param; });

TEST_P(DeviceLoadingTest, WeightsAndWhatAnOptimizerKeepsOfThemAreThere) {
  GivenState state(device, -1);
  Logger logger(state);
  load_checkpoint(path, state, logger);
  EXPECT_TRUE(bits_of(state) == expected);
  EXPECT_EQ(expected.size(), 4 * state.model->module().parameters().size());
  for (const auto& [key, kept] : state.optimizer->state()) {
    const auto& adam = static_cast<const torch::optim::AdamWParamState&>(*kept);
    EXPECT_EQ(adam.exp_avg().device(), device);
    EXPECT_TRUE(adam.exp_avg().storage().resizable());
  }
  // Loads over tensors that are in the device's memory already.
  load_checkpoint(path, state, logger);
  EXPECT_TRUE(bits_of(state) == expected);
}

TEST_P(DeviceLoadingTest, AModuleAloneTakesItsWeights) {
  save(state_dict(GivenModel(weights(1)).module()), folder / "weights.pt");
  GivenModel model(weights(-1, device));
  load_state_dict(model.module(), open_checkpoint(folder / "weights.pt"));
  expect_weights(model, 1);
}

// Some weights on the host, some on the device, and one that needs a conversion.
TEST_P(DeviceLoadingTest, WeightsOfTheHostAndOfOtherDtypesComeWithThem) {
  for (const bool in_place : {false, true}) {
    Tensors live = weights(-1, device);
    for (const char* name : {"small 3", "small 7"}) {
      live[name] = live[name].cpu();
    }
    live["small 9"] = torch::zeros(live["small 9"].sizes(), at::kDouble).to(device);
    State state;
    state.model = std::make_shared<GivenModel>(live);
    Logger logger(state);
    load_checkpoint(path, state, logger, {.load_weights_only = true, .in_place = in_place});
    for (const auto& [name, tensor] : weights(1)) {
      const at::Tensor found = state.model->module().named_parameters()[name].detach().cpu();
      const at::Tensor host = tensor_of(load(path).at("state").at("model").at(name).as_tensor());
      EXPECT_TRUE(found.to(at::kFloat).equal(host)) << name;
      EXPECT_EQ(found.scalar_type(), name == "small 9" ? at::kDouble : at::kFloat);
    }
  }
}

TEST_P(DeviceLoadingTest, ABadByteAnywhereChangesNothing) {
  const std::string good = testing::read_file(path);
  const Value saved = load(path);
  const Value& weights_saved = saved.at("state").at("model");
  const Value& kept = saved.at("state").at("optimizers").at("AdamW").at("state");
  GivenState state(device, -1);
  Logger logger(state);
  const auto before = bits_of(state);
  for (const Value& tensor :
       {weights_saved.at("large"), weights_saved.at("small 49"), kept.at("large").at("exp_avg"),
        kept.at("small 20").at("exp_avg_sq"), kept.at("small 20").at("step")}) {
    std::string bad = good;
    bad[tensor.as_tensor().storage->source_offset()] ^= 1;
    testing::write_file(path, bad);
    EXPECT_THAT(message_of<CorruptError>([&] { load_checkpoint(path, state, logger); }),
                HasSubstr("nothing was changed"));
    EXPECT_TRUE(bits_of(state) == before);
  }
  testing::write_file(path, good);
  load_checkpoint(path, state, logger);
  EXPECT_TRUE(bits_of(state) == expected);
}

// The state of a live optimizer, on whose stream the device still has work.
TEST_P(DeviceLoadingTest, AStateThatIsStillComputedIsWaitedFor) {
  GivenState live(device, -1);
  Logger logger(live);
  load_checkpoint(path, live, logger);
  Value taken;
  {
    const c10::StreamGuard on_stream(
        c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
    taken = optimizer_state_dict(*live.optimizer, live.model->module());
    const torch::NoGradGuard no_grad;
    for (const auto& [key, kept] : live.optimizer->state()) {
      at::Tensor moment = static_cast<torch::optim::AdamWParamState&>(*kept).exp_avg();
      moment.fill_(3);
    }
  }
  GivenState other(device, -1);
  load_optimizer_state_dict(*other.optimizer, other.model->module(), taken);
  taken = Value();
  const Value all = optimizer_state_dict(*other.optimizer, other.model->module());
  const Value& moment = all.at("state").at("large").at("exp_avg");
  EXPECT_TRUE(tensor_of(moment.as_tensor()).eq(3).all().item<bool>());
}

TEST_P(DeviceLoadingTest, WhatGoesThereAsItIsIsNeverOnTheHost) {
  const GivenState state(device, -1);
  const Value saved = load(path);
  const Value& model = saved.at("state").at("model");
  const Value& kept = saved.at("state").at("optimizers").at("AdamW");
  const auto storage_of = [](const Value& value) { return value.as_tensor().storage; };
  DeviceTargets targets;
  targets.add_model(state.model->module(), model);
  targets.add_optimizer(*state.optimizer, state.model->module(), kept);
  for (const char* name : {"large", "transposed", "scalar", "small 0"}) {
    EXPECT_EQ(targets.of(*storage_of(model.at(name))), device) << name;
  }
  const Value& of_large = kept.at("state").at("large");
  EXPECT_EQ(targets.of(*storage_of(of_large.at("exp_avg"))), device);
  EXPECT_EQ(targets.of(*storage_of(of_large.at("step"))), std::nullopt) << "numbers are looked at";

  Tensors doubles = weights(-1, device);
  for (auto& [name, tensor] : doubles) {
    tensor = torch::zeros(tensor.sizes(), at::kDouble).to(device);
  }
  const GivenModel of_doubles(doubles);
  const torch::optim::AdamW for_doubles(of_doubles.net->parameters());
  DeviceTargets none;
  none.add_model(*of_doubles.net, model);
  none.add_optimizer(for_doubles, *of_doubles.net, kept);
  EXPECT_EQ(none.of(*storage_of(model.at("large"))), std::nullopt) << "it has to be converted";
  EXPECT_EQ(none.of(*storage_of(of_large.at("exp_avg"))), std::nullopt);

  StagedReads reads;
  const auto all = [](const Storage&) { return true; };
  const Value made = staged(saved, all, reads, {.targets = &targets});
  EXPECT_LT(reads.bytes_on_host(), 8000);  // Only random states and numbers are on the host.
  EXPECT_TRUE(read_staged(open_checkpoint(path), std::move(reads), Verify::kFull).ok());
  EXPECT_TRUE(made.at("state").at("model") == model);
}

// --- Behaviour that a real device shows only by chance -------------------------------------------

TEST(DeviceLoadingSimulated, WhatIsTiedInTheFileIsLoadedOnBothSides) {
  const auto shared = view_of(torch::rand({100}));
  const TempFolder folder;
  save(Dict{{"a", shared}, {"b", shared}, {"c", view_of(torch::rand({100}))}}, folder / "w.pt");
  const Value saved = load(folder / "w.pt");
  const auto zeros = [](c10::Device device) { return torch::zeros({100}).to(device); };
  torch::nn::Module module;
  module.register_buffer("a", zeros(testing::sim_device()));
  module.register_buffer("b", zeros(c10::kCPU));
  module.register_buffer("c", zeros(testing::sim_device()));
  DeviceTargets targets;
  targets.add_model(module, saved);
  EXPECT_EQ(targets.of(*saved.at("a").as_tensor().storage), testing::sim_device());
  load_state_dict(module, open_checkpoint(folder / "w.pt"));
  for (const char* name : {"a", "b"}) {
    EXPECT_TRUE(module.named_buffers()[name].cpu().equal(tensor_of(shared))) << name;
  }
}

TEST(DeviceLoadingSimulated, ADeviceWithoutSideStreamsIsLoadedByWayOfTheHost) {
  const c10::Device device = testing::sim_device_without_side_streams();
  const TempFolder folder;
  save(state_dict(GivenModel(weights(1)).module()), folder / "weights.pt");
  GivenModel model(weights(-1, device));
  load_state_dict(model.module(), open_checkpoint(folder / "weights.pt"));
  expect_weights(model, 1);
}

TEST(DeviceLoadingSimulated, ACopyThatFailsChangesNothingWheneverItDoes) {
  const TempFolder folder;
  GivenState saved(c10::kCPU, 1);
  save_checkpoint(saved, folder / "saved.pt", {.weights_only = true});
  const auto expected = bits_of(saved);
  int failures = 0;
  for (std::uint64_t n = 1;; ++n) {
    GivenState state(testing::sim_device(), -1);
    Logger logger(state);
    const auto before = bits_of(state);
    testing::fail_sim_copy(n);
    std::string message;
    try {
      load_checkpoint(folder / "saved.pt", state, logger, {.load_weights_only = true});
    } catch (const Error& e) {
      message = e.what();
    }
    testing::fail_sim_copy(0);
    if (message.empty()) {
      EXPECT_TRUE(bits_of(state) == expected);
      break;
    }
    EXPECT_THAT(message, AllOf(HasSubstr("a copy failed"), HasSubstr("nothing was changed")));
    EXPECT_TRUE(bits_of(state) == before) << n;
    ++failures;
  }
  EXPECT_GE(failures, 5);
}

}  // namespace
}  // namespace cairn
