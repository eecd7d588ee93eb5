// Options, states and edges of the algorithms that Composer's runs do not show
// (composer_algorithms_test.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/algorithms/cutmix.h"
#include "cairn/algorithms/cutout.h"
#include "cairn/algorithms/draws.h"
#include "cairn/algorithms/layer_freezing.h"
#include "cairn/algorithms/mixup.h"
#include "cairn/algorithms/progressive_resizing.h"
#include "cairn/algorithms/sam.h"
#include "cairn/algorithms/selective_backprop.h"
#include "cairn/algorithms/seq_length_warmup.h"
#include "cairn/algorithms/swa.h"
#include "cairn/error.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "testing/tiny_model.h"
#include "train/engine/engine.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;

TEST(DrawsTest, GivesTheNumbersOfTorchsGenerator) {
  Draws draws;
  torch::manual_seed(9);
  const at::Tensor permutation = draws.permutation(5);
  const std::int64_t integer = draws.integer(-3, 4);
  torch::manual_seed(9);
  EXPECT_TRUE(permutation.equal(torch::randperm(5)));
  EXPECT_EQ(integer, torch::randint(-3, 4, {1}).item<std::int64_t>());
}

TEST(DrawsTest, FollowsTheDistributions) {
  Draws draws;
  torch::manual_seed(9);
  constexpr int kDraws = 4000;
  double sum = 0;
  double squares = 0;
  double first_chosen = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double number = draws.beta(0.5);
    ASSERT_TRUE(number >= 0 && number <= 1);
    sum += number;
    squares += number * number;
    const at::Tensor chosen = draws.choice(torch::tensor({3.0, 1.0, 0.0}), 1);
    EXPECT_NE(chosen.item<std::int64_t>(), 2);
    first_chosen += chosen.item<std::int64_t>() == 0 ? 1 : 0;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 0.5, 0.02);
  EXPECT_NEAR(squares / kDraws - mean * mean, 1.0 / 8, 0.01);  // 1 / (4 * (2 * alpha + 1))
  EXPECT_NEAR(first_chosen / kDraws, 0.75, 0.03);
  EXPECT_EQ(std::get<0>(at::_unique(draws.choice(torch::ones({6}), 6))).size(0), 6);
}

// Beta of a small alpha is near 0 or 1. Numbers that underflow would give exactly 0.5.
TEST(DrawsTest, ASmallAlphaGivesNumbersAtTheEnds) {
  Draws draws;
  torch::manual_seed(9);
  int at_an_end = 0;
  for (int i = 0; i < 1000; ++i) {
    const double number = draws.beta(0.001);
    at_an_end += number < 0.01 || number > 0.99 ? 1 : 0;
  }
  EXPECT_GE(at_an_end, 980);  // 99.1 % of the distribution
}

TEST(DrawsTest, RefusesWhatCannotBeDrawn) {
  Draws draws;
  EXPECT_THROW(draws.beta(0), UsageError);
  EXPECT_THROW(draws.integer(2, 2), UsageError);
  EXPECT_THROW(draws.choice(torch::ones({2}), 3), UsageError);
  EXPECT_EQ(draws.choice(torch::ones({2}), 0).size(0), 0);
}

TEST(AlgorithmOptions, AreRefusedOutOfRange) {
  EXPECT_THROW(MixUp({.alpha = -0.1}), UsageError);
  EXPECT_THROW(MixUp({.input_key = std::int64_t{-1}}), UsageError);
  EXPECT_THROW(CutMix({.alpha = -1}), UsageError);
  EXPECT_THROW(CutOut({.length = 1.0}), UsageError);
  EXPECT_THROW(CutOut({.num_holes = -1}), UsageError);
  EXPECT_THROW(LayerFreezing({.freeze_level = 1.5}), UsageError);
  EXPECT_THROW(ProgressiveResizing({.mode = "shrink"}), UsageError);
  EXPECT_THROW(ProgressiveResizing({.finetune_fraction = 0.6, .delay_fraction = 0.6}), UsageError);
  EXPECT_THROW(ProgressiveResizing({.size_increment = 0}), UsageError);
  EXPECT_THROW(SAM({.rho = -1}), UsageError);
  EXPECT_THROW(SAM({.interval = 0}), UsageError);
  EXPECT_THROW(SelectiveBackprop({.keep = 1.2}), UsageError);
  EXPECT_THROW(SelectiveBackprop({.interrupt = -1}), UsageError);
  EXPECT_THROW(SeqLengthWarmup({.duration = 2}), UsageError);
  EXPECT_THROW(SeqLengthWarmup({.min_seq_length = 9, .max_seq_length = 8}), UsageError);
  EXPECT_THROW(SWA({.swa_start = "0.9dur", .swa_end = "0.8dur"}), UsageError);
  EXPECT_THROW(SWA({.swa_start = "1ep"}), UsageError);
  EXPECT_THROW(SWA({.swa_start = "1ba", .swa_end = "2ba"}), UsageError);
  EXPECT_THROW(SWA({.update_interval = "5sp"}), UsageError);
  EXPECT_THROW(SWA({.anneal_strategy = "exp"}), UsageError);
  EXPECT_THROW(SWA({.anneal_steps = 0}), UsageError);
}

TEST(AlgorithmOptions, AreTheConstructorCallOfPython) {
  EXPECT_EQ(MixUp().repr(), "MixUp(alpha=0.2,interpolate_loss=False,input_key=0,target_key=1)");
  EXPECT_EQ(CutMix({.target_key = "y"}).repr(),
            "CutMix(alpha=1.0,interpolate_loss=False,uniform_sampling=False,input_key=0,"
            "target_key='y')");
  EXPECT_EQ(CutOut().repr(), "CutOut(num_holes=1,length=0.5,uniform_sampling=False,input_key=0)");
  EXPECT_EQ(SWA().repr(),
            "SWA(swa_start='0.7dur',swa_end='0.97dur',update_interval='1ep',"
            "schedule_swa_lr=False,anneal_strategy='linear',anneal_steps=10,swa_lr=None)");
  EXPECT_EQ(LayerFreezing().repr(), "LayerFreezing(freeze_start=0.5,freeze_level=1.0)");
  EXPECT_EQ(ProgressiveResizing().repr(),
            "ProgressiveResizing(mode='resize',initial_scale=0.5,finetune_fraction=0.2,"
            "delay_fraction=0.5,size_increment=4,resize_targets=False,input_key=0,target_key=1)");
  EXPECT_EQ(SAM().repr(), "SAM(rho=0.05,epsilon=1e-12,interval=1)");
  EXPECT_EQ(SelectiveBackprop().repr(),
            "SelectiveBackprop(start=0.5,end=0.9,keep=0.5,scale_factor=1.0,interrupt=2,"
            "input_key=0,target_key=1)");
  EXPECT_EQ(SeqLengthWarmup().repr(),
            "SeqLengthWarmup(duration=0.3,min_seq_length=8,max_seq_length=1024,step_size=8,"
            "truncate=True,preserve_end_of_sequence=False)");
}

// --- CutMix --------------------------------------------------------------------------------------

TEST(CutMixTest, MasksOfTheImagesSizeGetTheBox) {
  torch::manual_seed(4);
  State state;
  Logger logger(state);
  const at::Tensor images = torch::rand({4, 1, 6, 6});
  const at::Tensor masks = (images.squeeze(1) * 100).to(at::kLong);
  state.batch = {images, masks};
  CutMix algorithm({.alpha = 1});
  algorithm.apply(Event::kBeforeForward, state, logger);
  algorithm.apply(Event::kBeforeLoss, state, logger);
  EXPECT_FALSE(state.batch[0].equal(images));
  EXPECT_TRUE(state.batch[1].equal((state.batch[0].squeeze(1) * 100).to(at::kLong)));
  EXPECT_TRUE(masks.equal((images.squeeze(1) * 100).to(at::kLong)));  // Not changed in place.
  CutMix of_losses({.interpolate_loss = true});
  of_losses.apply(Event::kBeforeForward, state, logger);
  EXPECT_THROW(of_losses.apply(Event::kBeforeBackward, state, logger), UsageError);
}

TEST(CutMixTest, RefusesOtherShapesAndTwoSizes) {
  const at::Tensor target = torch::zeros({2}, at::kLong);
  EXPECT_THROW(cutmix_batch(torch::zeros({2, 5}), target), UsageError);
  EXPECT_THROW(cutmix_batch(torch::zeros({2, 1, 4, 4}), target,
                            {.length = 0.5, .bbox = CutMixBox{0, 0, 1, 1}}),
               UsageError);
}

// --- SWA -----------------------------------------------------------------------------------------

struct SwaRun {
  explicit SwaRun(SWAOptions options) : swa(std::move(options)) {
    net->push_back(torch::nn::BatchNorm1d(1));
    state.model = classifier(net);
    state.max_duration = "10ep";
    swa.apply(Event::kInit, state, logger);
  }
  // An epoch after which all weights and buffers are `value`.
  void epoch(double value) {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& tensor : net->parameters())
      tensor.fill_(value);
    for (at::Tensor& tensor : net->buffers())
      tensor.fill_(value);
    state.timestamp = state.timestamp.to_next_batch(1, 0, {}).to_next_epoch();
    if (swa.match(Event::kEpochEnd, state)) swa.apply(Event::kEpochEnd, state, logger);
  }
  double weight() const { return net->parameters()[0].item<double>(); }
  double running_mean() const { return net->buffers()[0].item<double>(); }

  torch::nn::Sequential net;
  State state;
  Logger logger{state};
  SWA swa;
};

TEST(SWATest, TheMeanReplacesTheWeightsOnce) {
  SwaRun run({.swa_start = "2ep", .swa_end = "4ep"});
  run.epoch(100);
  run.epoch(1);
  run.epoch(2);
  EXPECT_EQ(run.weight(), 2);
  run.epoch(6);
  EXPECT_EQ(run.weight(), 3);        // (1 + 2 + 6) / 3
  EXPECT_EQ(run.running_mean(), 6);  // As in the last sample.
  EXPECT_EQ(run.swa.state_dict().at("swa_completed"), Value(true));
  run.epoch(7);
  EXPECT_EQ(run.weight(), 7);
}

TEST(SWATest, RefusesTheStateOfAnotherModelAndChangesNothing) {
  SwaRun run({.swa_start = "1ep", .swa_end = "4ep"});
  run.epoch(1);
  const Value before = run.swa.state_dict();
  Value other = before;
  other.mutable_dict().set("swa_model", Dict{{"n_averaged", view_of(torch::zeros({}, at::kLong))}});
  EXPECT_THROW(run.swa.load_state_dict(other, run.state), MismatchError);
  EXPECT_TRUE(run.swa.state_dict() == before);
}

// --- LayerFreezing -------------------------------------------------------------------------------

TEST(LayerFreezingTest, FreezesTheFirstLayersAndNeverTheLast) {
  torch::nn::Sequential net(torch::nn::Linear(2, 2), torch::nn::ReLU(), torch::nn::Linear(2, 2),
                            torch::nn::Linear(2, 2));
  net->parameters()[0].mutable_grad() = torch::ones({2, 2});
  EXPECT_EQ(freeze_layers(*net, 0.5).layers, 0);
  const FrozenLayers frozen = freeze_layers(*net, 0.75);
  EXPECT_EQ(frozen.layers, 1);
  EXPECT_EQ(frozen.percentage, 0.5);
  EXPECT_FALSE(net->parameters()[0].requires_grad());
  EXPECT_FALSE(net->parameters()[0].grad().defined());
  EXPECT_TRUE(net->parameters()[2].requires_grad());
  EXPECT_EQ(freeze_layers(*net, 1.0).layers, 2);
  EXPECT_FALSE(net->parameters()[2].requires_grad());
  EXPECT_TRUE(net->parameters()[4].requires_grad());
  // A run in samples may end after its end, in the middle of an epoch.
  EXPECT_EQ(freeze_layers(*net, 1.5).layers, 2);
  EXPECT_EQ(freeze_layers(*net, 1.5, {.freeze_start = 1}).layers, 0);
  EXPECT_TRUE(net->parameters()[4].requires_grad());
}

TEST(LayerFreezingTest, ALoadFreezesAndTheLoadOfTheOldStateThaws) {
  torch::nn::Sequential net(torch::nn::Linear(2, 2), torch::nn::Linear(2, 2));
  State state;
  state.model = classifier(net);
  LayerFreezing algorithm;
  const Value before = algorithm.state_dict();
  algorithm.load_state_dict(Dict{{"layers_frozen", 1}}, state);
  EXPECT_FALSE(net->parameters()[0].requires_grad());
  EXPECT_EQ(algorithm.state_dict().at("layers_frozen"), Value(1));
  algorithm.load_state_dict(before, state);
  EXPECT_TRUE(net->parameters()[0].requires_grad());
  EXPECT_THROW(algorithm.load_state_dict(Dict{{"layers_frozen", 2}}, state), MismatchError);
  algorithm.load_state_dict(Dict(), state);  // Composer's
  EXPECT_TRUE(net->parameters()[0].requires_grad());
}

// --- SelectiveBackprop ---------------------------------------------------------------------------

TEST(SelectiveBackpropTest, RunsBeforeOthersAndKeepsTheLargestLosses) {
  State state;
  state.algorithms = {std::make_shared<CutOut>(), std::make_shared<SelectiveBackprop>()};
  std::vector<Algorithm*> order = {state.algorithms[0].get(), state.algorithms[1].get()};
  const std::vector<AlgorithmPass> passes = state.algorithms[1]->passes();
  ASSERT_EQ(passes.size(), 1U);
  passes[0].order(order, Event::kAfterDataloader);
  EXPECT_THAT(order, ElementsAre(state.algorithms[1].get(), state.algorithms[0].get()));

  // The loss is the input. With keep = 0.05 the weight of the largest loss is nearly all of them.
  const at::Tensor input = torch::arange(40, at::kFloat).flip(0);
  const auto same = [](const at::Tensor& x) { return x; };
  const SelectedBatch selected = select_using_loss(
      input, input, same,
      {.keep = 0.05,
       .loss_fn = [](const at::Tensor& outputs, const at::Tensor&) { return outputs; }});
  EXPECT_EQ(selected.input.size(0), 2);
  EXPECT_TRUE(selected.input.equal(selected.target));
  EXPECT_GT(selected.input.min().item<double>(), 25);
}

TEST(SelectiveBackpropTest, KeepsAtLeastOneSample) {
  const auto same = [](const at::Tensor& input) { return input; };
  const at::Tensor one = torch::ones({1, 3});
  const at::Tensor target = torch::zeros({1}, torch::kLong);
  EXPECT_EQ(select_using_loss(one, target, same, {.keep = 0.5}).input.size(0), 1);
  EXPECT_THROW(select_using_loss(one, target, same, {.keep = 0}), UsageError);
}

TEST(SelectiveBackpropTest, WantsALossForEachSample) {
  const at::Tensor input = torch::zeros({4, 3});
  const auto same = [](const at::Tensor& x) { return x; };
  const auto mean = [](const at::Tensor& outputs, const at::Tensor&) { return outputs.mean(); };
  EXPECT_THROW(select_using_loss(input, input, same, {.loss_fn = mean}), UsageError);
  EXPECT_THROW(select_using_loss(input, input, same, {.scale_factor = 0.5}), UsageError);
  const at::Tensor masks = torch::zeros({4, 2, 2}, at::kLong);
  EXPECT_EQ(sample_cross_entropy(torch::zeros({4, 3, 2, 2}), masks).sizes(),
            (std::vector<std::int64_t>{4}));
}

// --- SeqLengthWarmup -----------------------------------------------------------------------------

TEST(SeqLengthWarmupTest, NamesWhatTheBatchLacks) {
  const at::Tensor ids = torch::ones({2, 8}, at::kLong);
  EXPECT_THROW(set_batch_sequence_length(Batch{ids}, 4), UsageError);
  const Batch named = Batch::named({{"ids", ids}});
  EXPECT_THROW(set_batch_sequence_length(named, 4, {.truncate = false}), UsageError);
  EXPECT_THROW(set_batch_sequence_length(named, 4, {.preserve_end_of_sequence = true}), UsageError);
  const Batch with_labels =
      Batch::named({{"input_ids", ids}, {"labels", torch::ones({2}, at::kLong)}});
  EXPECT_THROW(set_batch_sequence_length(with_labels, 4), UsageError);
  EXPECT_THROW(set_batch_sequence_length(with_labels, 4, {.truncate = false}), UsageError);
  EXPECT_EQ(ids.size(1), 8);
}

TEST(SeqLengthWarmupTest, LeavesTheBatchThatItIsGivenAsItIs) {
  const at::Tensor ids = torch::arange(1, 9).unsqueeze(0);  // one sample: its slice is contiguous
  const Batch batch = Batch::named({{"input_ids", ids}, {"attention_mask", torch::ones_like(ids)}});
  const at::Tensor before = ids.clone();
  const Batch cut = set_batch_sequence_length(batch, 4, {.preserve_end_of_sequence = true});
  EXPECT_TRUE(cut["input_ids"].equal(torch::tensor({{1, 2, 3, 8}}, torch::kLong)));
  EXPECT_TRUE(ids.equal(before));
}

TEST(SeqLengthWarmupTest, WantsADurationThatItsStepsFitInto) {
  State state;
  Logger logger(state);
  state.batch = Batch::named({{"input_ids", torch::ones({2, 8}, at::kLong)}});
  SeqLengthWarmup algorithm({.min_seq_length = 2, .max_seq_length = 8, .step_size = 2});
  state.max_duration = "5ba";  // 1 batch for 3 steps.
  EXPECT_THROW(algorithm.apply(Event::kAfterDataloader, state, logger), UsageError);
  state.max_duration = "100tok";
  EXPECT_THROW(algorithm.apply(Event::kAfterDataloader, state, logger), UsageError);
  state.max_duration = "100ba";
  algorithm.apply(Event::kAfterDataloader, state, logger);
  EXPECT_EQ(state.batch["input_ids"].size(1), 2);
}

}  // namespace
}  // namespace cairn
