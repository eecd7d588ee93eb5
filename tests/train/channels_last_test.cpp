// ChannelsLast: which tensors it converts, and that training, saving and resuming take them.

#include "cairn/algorithms/channels_last.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "cairn/algorithms/ema.h"
#include "cairn/checkpoint.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/temp_folder.h"
#include "testing/tiny_model.h"
#include "train/fused/fused_step.h"

namespace cairn {
namespace {

using testing::CallAt;
using testing::TempFolder;
using testing::tiny_loader;

bool is_channels_last(const at::Tensor& tensor) {
  return tensor.is_contiguous(at::MemoryFormat::ChannelsLast) && !tensor.is_contiguous();
}

// Two convolutions over features as an image of 2 x 2.
torch::nn::Sequential conv_net() {
  torch::manual_seed(3);
  return torch::nn::Sequential(
      torch::nn::Unflatten(torch::nn::UnflattenOptions(1, {1, 2, 2})),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1)), torch::nn::ReLU(),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 3, 2)), torch::nn::Flatten());
}

TrainerOptions conv_options(bool channels_last) {
  TrainerOptions options = testing::tiny_options();
  options.model = classifier(conv_net());
  DataSpec data{.dataloader = tiny_loader(12, {.batch_size = 4, .shuffle = true})};
  data.microbatch_transforms = [](const Batch& batch) {
    return batch.map([](const at::Tensor& tensor) {
      return tensor.is_floating_point() ? tensor.to(at::kFloat) : tensor;
    });
  };
  options.train_dataloader = data;
  options.optimizers = AdamW({.lr = 1e-2});
  options.max_duration = "6ba";
  options.seed = 4;
  options.run_name = "conv";
  if (channels_last) options.algorithms = {ChannelsLast()};
  return options;
}

at::Tensor weight_of(Trainer& trainer) { return parameters(trainer.state().model->module()).at(2); }

at::Tensor trained_weights(TrainerOptions options) {
  Trainer trainer(std::move(options));
  trainer.fit();
  return testing::weights_of(*trainer.state().model).clone();
}

TEST(ChannelsLastTest, ConvertsTensorsOfFourDimensionsInPlace) {
  torch::nn::Sequential net = conv_net();
  net->register_buffer("image", at::rand({2, 3, 4, 5}));
  net->register_buffer("volume", at::rand({2, 3, 4, 5, 6}));
  std::vector<at::Tensor> live = parameters(*net);
  std::vector<at::Tensor> before;
  for (const at::Tensor& tensor : live)
    before.push_back(tensor.detach().clone());
  const at::Tensor image = net->named_buffers()["image"].clone();
  apply_channels_last(*net);
  EXPECT_TRUE(is_channels_last(live[2]));
  for (std::size_t i = 0; i < live.size(); ++i) {
    EXPECT_TRUE(at::equal(live[i], before[i]));
    EXPECT_TRUE(live[i].requires_grad() && live[i].is_leaf());
  }
  EXPECT_TRUE(is_channels_last(net->named_buffers()["image"]));
  EXPECT_TRUE(at::equal(net->named_buffers()["image"], image));
  EXPECT_TRUE(net->named_buffers()["volume"].is_contiguous());
}

TEST(ChannelsLastTest, TrainsAsWithoutIt) {
  TrainerOptions options = conv_options(true);
  bool is_fused = false;
  options.callbacks = {CallAt(Event::kAfterTrainBatch, [&](State& state) {
    const at::Tensor weight = parameters(state.model->module()).at(2);
    EXPECT_TRUE(is_channels_last(weight));
    is_fused = fused::can_fuse(weight, weight.grad(), {at::zeros_like(weight)});
  })};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_TRUE(is_fused);
  const Value saved =
      optimizer_state_dict(*trainer.state().optimizer, trainer.state().model->module());
  const Value* const moment = find_path(saved, "state/module.3.weight/exp_avg");
  ASSERT_NE(moment, nullptr);
  EXPECT_EQ(moment->as_tensor().strides, weight_of(trainer).strides().vec());
  EXPECT_TRUE(at::allclose(testing::weights_of(*trainer.state().model),
                           trained_weights(conv_options(false)), 1e-4, 1e-5));
}

// Each direction: the values of one run in the order of the other.
TEST(ChannelsLastTest, LoadsCheckpointsOfRunsWithoutItAndTheOtherWayRound) {
  for (const bool saves_channels_last : {true, false}) {
    const TempFolder folder;
    Trainer first(conv_options(saves_channels_last));
    first.fit();
    const std::string path = first.save_checkpoint(folder / "ep{epoch}.pt");
    const Value saved = load(path);
    const Value* const weight = find_path(saved, "state/model/module.3.weight");
    ASSERT_NE(weight, nullptr);
    EXPECT_EQ(weight->as_tensor().strides, weight_of(first).strides().vec());
    for (const bool in_place : {false, true}) {
      TrainerOptions options = conv_options(!saves_channels_last);
      options.load_path = path;
      options.load_in_place = in_place;
      Trainer second(std::move(options));
      EXPECT_TRUE(at::equal(weight_of(second), weight_of(first)));
      EXPECT_EQ(is_channels_last(weight_of(second)), !saves_channels_last);
      EXPECT_EQ(is_channels_last(weight_of(first)), saves_channels_last);
      second.fit({.duration = "1ba"});
    }
  }
}

TEST(ChannelsLastTest, ResumesBitForBit) {
  for (const bool averages : {false, true}) {
    const auto options = [averages](const char* duration) {
      TrainerOptions all = conv_options(true);
      if (averages) all.algorithms.push_back(EMA({.half_life = "2ba"}));
      all.max_duration = duration;
      return all;
    };
    const TempFolder other;
    TrainerOptions whole = options("6ba");
    whole.save_folder = other.path();  // A save with EMA leaves the averages in the model.
    const at::Tensor uninterrupted = trained_weights(std::move(whole));
    const TempFolder folder;
    TrainerOptions begin = options("2ba");
    begin.save_folder = folder.path();
    trained_weights(std::move(begin));
    TrainerOptions rest = options("6ba");
    rest.save_folder = folder.path();
    rest.autoresume = true;
    EXPECT_TRUE(at::equal(trained_weights(std::move(rest)), uninterrupted)) << averages;
  }
}

TEST(ChannelsLastTest, StateIsItsConstructorCall) {
  EXPECT_EQ(ChannelsLast().state_dict(), (Dict{{"repr", "ChannelsLast()"}}));
}

}  // namespace
}  // namespace cairn
