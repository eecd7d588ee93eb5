// Activation checkpointing of plain modules, and of Sharded<> in one process.
#include "cairn/dist/activation_checkpoint.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/parameters.h"
#include "cairn/train/trainer.h"

#include "dist/sharding/sharding.h"
#include "train/loop/precision.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

struct RecomputedBlockImpl : torch::nn::Module {
  explicit RecomputedBlockImpl(std::int64_t width) {
    first = register_module("first", torch::nn::Linear(width, 4 * width));
    dropout = register_module("dropout", torch::nn::Dropout(0.3));
    second = register_module("second", torch::nn::Linear(4 * width, width));
  }
  at::Tensor forward(const at::Tensor& input) {
    ++forwards;
    return input + second(dropout(torch::gelu(first(input))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::Dropout dropout{nullptr};
  int forwards = 0;
};
TORCH_MODULE(RecomputedBlock);

// Its first layer's input has integers, so no input of the first block requires a gradient.
struct RecomputedNetImpl : torch::nn::Module {
  explicit RecomputedNetImpl(bool again) : recomputes(again) {
    torch::manual_seed(5);
    words = register_module("words", torch::nn::Embedding(9, 8));
    for (int i = 0; i < 3; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), RecomputedBlock(8)));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    if (!recomputes) {
      at::Tensor x = words(tokens);
      for (auto& block : blocks)
        x = block(x);
      return x.matmul(words->weight.t());
    }
    at::Tensor x = checkpoint_activations(words, tokens);
    for (auto& block : blocks)
      x = checkpoint_activations(block, x);
    return x.matmul(words->weight.t());
  }
  bool recomputes;
  torch::nn::Embedding words{nullptr};
  std::vector<RecomputedBlock> blocks;
};
TORCH_MODULE(RecomputedNet);

at::Tensor some_tokens(std::int64_t seed) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return at::randint(0, 9, {4, 5}, generator, at::kLong);
}

// Two microbatches, whose gradients add up. Returns a number drawn at the end.
double add_gradients(RecomputedNet& net, Precision precision) {
  torch::manual_seed(11);
  for (const std::int64_t seed : {1, 2}) {
    at::Tensor loss;
    {
      const AutocastGuard autocast(precision, at::kCPU);
      const at::Tensor tokens = some_tokens(seed);
      loss = torch::nn::functional::cross_entropy(net->forward(tokens).flatten(0, 1),
                                                  tokens.flatten());
    }
    loss.backward();
  }
  return torch::rand({1}, at::kDouble).item<double>();
}

void expect_same_gradients(const torch::nn::Module& one, const torch::nn::Module& other) {
  const auto expected = named_parameters(one);
  const auto found = named_parameters(other);
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(found[i].second.grad().defined()) << found[i].first;
    EXPECT_TRUE(found[i].second.grad().equal(expected[i].second.grad())) << found[i].first;
  }
}

class ActivationCheckpoints : public ::testing::TestWithParam<Precision> {};

TEST_P(ActivationCheckpoints, GiveTheGradientsOfAPlainCall) {
  RecomputedNet plain(false);
  RecomputedNet net(true);
  EXPECT_EQ(add_gradients(net, GetParam()), add_gradients(plain, GetParam()));
  for (std::size_t i = 0; i < net->blocks.size(); ++i)
    expect_same_gradients(*plain->blocks[i], *net->blocks[i]);
  // The first layer's weight is also the last one's, and the gradients of both uses are added in
  // another order. A plain call under autocast casts the weight once for both, and adds in
  // bfloat16.
  const double tolerance = GetParam() == Precision::kFp32 ? 1e-6 : 1e-2;
  EXPECT_TRUE(
      net->words->weight.grad().allclose(plain->words->weight.grad(), tolerance, tolerance / 10));
  EXPECT_EQ(plain->blocks[0]->forwards, 2);
  EXPECT_EQ(net->blocks[0]->forwards, 4);
}

INSTANTIATE_TEST_SUITE_P(Precisions, ActivationCheckpoints,
                         ::testing::Values(Precision::kFp32, Precision::kAmpBf16));

TEST(ActivationCheckpoint, WithoutGradientsIsAPlainCall) {
  RecomputedNet net(true);
  {
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(net->forward(some_tokens(1)).requires_grad());
  }
  EXPECT_EQ(net->blocks[0]->forwards, 1);
}

// A plain call keeps the argument of each sin() for backward().
TEST(ActivationCheckpoint, KeepsOnlyTheInput) {
  std::vector<at::Tensor> kept;
  const auto compute = [&](at::Tensor x) {
    for (int i = 0; i < 10; ++i) {
      x = x.sin();
      kept.push_back(x);
    }
    return x;
  };
  const auto owned_elsewhere = [&] {
    return std::ranges::count_if(kept,
                                 [](const at::Tensor& tensor) { return tensor.use_count() > 1; });
  };
  const at::Tensor x = torch::rand({1024}).requires_grad_();
  const at::Tensor plain = compute(x);
  EXPECT_EQ(owned_elsewhere(), 10);  // 9 arguments, and the result.
  kept.clear();
  const at::Tensor y = checkpoint_activations(compute, x);
  EXPECT_EQ(owned_elsewhere(), 0);
}

TEST(ActivationCheckpoint, TakesAndGivesTuplesVectorsAndUndefinedTensors) {
  using Two = std::tuple<at::Tensor, std::vector<at::Tensor>>;
  const auto compute = [](const std::vector<at::Tensor>& given,
                          const std::optional<at::Tensor>& bias, double factor) -> Two {
    const at::Tensor product = given[0] * given[1] * factor;
    return {bias ? product + *bias : product, {at::Tensor(), given[0] + 1, product.argmax()}};
  };
  const at::Tensor a = torch::rand({3}).requires_grad_();
  const at::Tensor b = torch::rand({3});
  const std::optional<at::Tensor> bias = torch::rand({3}).requires_grad_();
  const auto gradients = [&](const Two& result) {
    const auto& [product, others] = result;
    EXPECT_FALSE(others.at(0).defined());
    EXPECT_FALSE(others.at(2).requires_grad());
    (product.sum() + others.at(1).pow(2).sum()).backward();
    return std::pair(std::exchange(a.mutable_grad(), at::Tensor()),
                     std::exchange(bias->mutable_grad(), at::Tensor()));
  };
  const std::vector<at::Tensor> given = {a, b};
  const auto [expected_a, expected_bias] = gradients(compute(given, bias, 2.5));
  const auto [found_a, found_bias] = gradients(checkpoint_activations(compute, given, bias, 2.5));
  EXPECT_TRUE(found_a.equal(expected_a));
  EXPECT_TRUE(found_bias.equal(expected_bias));
  EXPECT_FALSE(b.grad().defined());
  // An output that nothing uses has no gradient.
  std::get<0>(checkpoint_activations(compute, given, std::optional<at::Tensor>(), 1.0))
      .sum()
      .backward();
  EXPECT_TRUE(a.grad().equal(b));
}

TEST(ActivationCheckpoint, MayLieInsideAnother) {
  const at::Tensor x = torch::rand({4}).requires_grad_();
  const auto inner = [](const at::Tensor& y) { return y.sin(); };
  const auto outer = [&](const at::Tensor& y) { return checkpoint_activations(inner, y).exp(); };
  checkpoint_activations(outer, x).sum().backward();
  const at::Tensor found = std::exchange(x.mutable_grad(), at::Tensor());
  x.sin().exp().sum().backward();
  EXPECT_TRUE(found.equal(x.grad()));
}

TEST(ActivationCheckpoint, ResultsMayBeChangedInPlace) {
  const torch::nn::Linear layer(3, 3);
  const at::Tensor x = torch::rand({2, 2, 3}).requires_grad_();
  checkpoint_activations(layer, x).relu_().sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

template <class E>
std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ActivationCheckpoint, OtherWaysToComputeGradientsAreRefused) {
  const at::Tensor x = torch::rand({4}).requires_grad_();
  const at::Tensor y = checkpoint_activations([](const at::Tensor& z) { return z.sin(); }, x);
  EXPECT_THAT(message_of<std::exception>([&] { torch::autograd::grad({y.sum()}, {x}); }),
              HasSubstr("works with tensor.backward() only"));
}

TEST(ActivationCheckpoint, AFunctionThatComputesSomethingElseTheSecondTimeIsRefused) {
  const at::Tensor x = torch::rand({4}).requires_grad_();
  int calls = 0;
  const auto compute = [&](const at::Tensor& z) {
    return std::vector<at::Tensor>(static_cast<std::size_t>(++calls), z.sin());
  };
  const std::vector<at::Tensor> y = checkpoint_activations(compute, x);
  EXPECT_THAT(message_of<std::exception>([&] { y[0].sum().backward(); }),
              HasSubstr("gave 1 tensors in forward(), and 2 when"));
}

TEST(ActivationCheckpoint, AnErrorOfTheSecondCallLeavesTheGenerator) {
  const at::Tensor x = torch::rand({4}).requires_grad_();
  int calls = 0;
  const at::Tensor y = checkpoint_activations(
      [&](const at::Tensor& z) {
        const at::Tensor noise = torch::rand({4});
        if (++calls == 2) throw std::runtime_error("no second call");
        return z * noise;
      },
      x);
  torch::manual_seed(3);
  EXPECT_THAT(message_of<std::exception>([&] { y.sum().backward(); }), HasSubstr("no second call"));
  const double found = torch::rand({1}).item<double>();
  torch::manual_seed(3);
  EXPECT_EQ(found, torch::rand({1}).item<double>());
}

// --- FSDPConfig::activation_checkpointing, in one process ----------------------------------------

TEST(ActivationCheckpoint, TheOptionComputesEachShardedModuleAgain) {
  const auto train = [](bool recomputes, int& forwards) {
    torch::manual_seed(5);
    Sharded<RecomputedBlock> block(8);
    const torch::nn::Sequential net(torch::nn::Linear(3, 8), block, torch::nn::Linear(8, 2));
    Trainer trainer(TrainerOptions{
        .model = classifier(net, {.num_classes = 2}),
        .train_dataloader =
            DataLoader(tensor_dataset({torch::rand({8, 3}), torch::randint(0, 2, {8}, at::kLong)}),
                       {.batch_size = 4}),
        .max_duration = "2ep",
        .device_train_microbatch_size = 2,
        .seed = 3,
        .parallelism_config =
            ParallelismConfig{.fsdp = FSDPConfig{.activation_checkpointing = recomputes}},
    });
    trainer.fit();
    forwards = block->forwards;
    std::vector<at::Tensor> weights;
    for (const at::Tensor& parameter : net->parameters())
      weights.push_back(parameter.detach().flatten());
    return torch::cat(weights);
  };
  int forwards = 0;
  const at::Tensor expected = train(false, forwards);
  EXPECT_EQ(forwards, 8);
  EXPECT_TRUE(train(true, forwards).equal(expected));
  EXPECT_EQ(forwards, 16);
}

struct ChangesItsArgumentImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input, int& calls) {
    ++calls;
    return input * 2;
  }
};
TORCH_MODULE(ChangesItsArgument);

TEST(ActivationCheckpoint, AnArgumentThatMayChangeIsRefused) {
  Sharded<ChangesItsArgument> module;
  int calls = 0;
  EXPECT_EQ(module->forward(torch::ones({1}), calls).item<double>(), 2);
  dist::set_activation_checkpointing(*module, true);
  EXPECT_THAT(message_of<UnsupportedError>([&] { module->forward(torch::ones({1}), calls); }),
              HasSubstr("a reference that is not const"));
}

}  // namespace
}  // namespace cairn
