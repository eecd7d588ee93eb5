// Weights that occur twice in a model are trained, counted, saved and loaded once, under the name
// that Python gives them. Each model here has a twin in which every weight is registered once. Both
// must train alike, bit for bit.

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "cairn/algorithms/ema.h"
#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/parameters.h"
#include "cairn/train/scaler.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/keys.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::CallAt;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::keys;
using testing::TempFolder;
using testing::tiny_options;

struct Projection : torch::nn::Module {
  explicit Projection(const at::Tensor& tied) : weight(register_parameter("weight", tied)) {}
  at::Tensor weight;
};

// A layer with a parameter and a buffer.
struct Scaled : torch::nn::Module {
  Scaled() {
    const torch::NoGradGuard no_grad;
    linear->weight.copy_(torch::linspace(-1, 1, 16).view({4, 4}));
    linear->bias.copy_(torch::linspace(0, 1, 4));
  }
  at::Tensor forward(const at::Tensor& input) { return linear->forward(input) * scale; }
  torch::nn::Linear linear{
      register_module("linear", torch::nn::Linear(torch::nn::LinearOptions(4, 4)))};
  at::Tensor scale = register_buffer("scale", torch::full({1}, 0.5));
};

// A model that uses one layer twice. The layer's weight is also the output projection. `tied`:
// registers the layer and the weight under every name, as in Python's modules.
class TiedModel final : public Model {
 public:
  explicit TiedModel(bool tied) {
    net_->register_module("first", layer_);
    if (!tied) return;
    net_->register_module("second", layer_);
    net_->register_module("out", std::make_shared<Projection>(layer_->linear->weight));
  }
  torch::nn::Module& module() override { return *net_; }
  Outputs forward(const Batch& batch) override {
    const at::Tensor hidden = torch::tanh(layer_->forward(batch[0].to(at::kFloat)));
    return torch::nn::functional::linear(layer_->forward(hidden), layer_->linear->weight);
  }
  Losses loss(const Outputs& outputs, const Batch& batch) override {
    return torch::nn::functional::cross_entropy(outputs.single(), batch[1]);
  }

 private:
  std::shared_ptr<Scaled> layer_ = std::make_shared<Scaled>();
  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>("Tied");
};

TrainerOptions options_of(const std::shared_ptr<Model>& model) {
  TrainerOptions options = tiny_options();
  options.model = model;
  options.optimizers = AdamW({.lr = 0.05});
  return options;
}

at::Tensor weights_after(TrainerOptions options) {
  Trainer trainer(std::move(options));
  trainer.fit();
  std::vector<at::Tensor> flat;
  for (const at::Tensor& parameter : parameters(trainer.state().model->module())) {
    flat.push_back(parameter.detach().flatten().clone());
  }
  return torch::cat(flat);
}

// Trains the model in which each weight is registered once and the tied model. Checks that both end
// with the same weights.
void expect_twins_alike(const std::function<void(TrainerOptions&)>& change) {
  std::vector<at::Tensor> ends;
  for (const bool tied : {false, true}) {
    TrainerOptions options = options_of(std::make_shared<TiedModel>(tied));
    change(options);
    ends.push_back(weights_after(std::move(options)));
  }
  EXPECT_TRUE(ends[0].equal(ends[1])) << ends[0] << ends[1];
}

std::vector<std::string> names(const std::vector<std::pair<std::string, at::Tensor>>& items) {
  std::vector<std::string> found;
  for (const auto& [name, tensor] : items)
    found.push_back(name);
  return found;
}

TEST(TiedWeights, AreListedOnceUnderTheirFirstNameAndSavedUnderEach) {
  TiedModel model(/*tied=*/true);
  EXPECT_THAT(names(named_parameters(model.module())),
              ElementsAre("first.linear.weight", "first.linear.bias"));
  EXPECT_THAT(names(named_buffers(model.module())), ElementsAre("first.scale"));
  EXPECT_EQ(parameters(model.module()).size(), 2);
  EXPECT_THAT(keys(state_dict(model.module())),
              ElementsAre("first.scale", "first.linear.weight", "first.linear.bias", "second.scale",
                          "second.linear.weight", "second.linear.bias", "out.weight"));
}

// A parent and its child share a parameter. Python walks a parent before its children. Only the
// module's table has the parameter.
struct ChildOfTwoNames : torch::nn::Module {
  ChildOfTwoNames() { register_parameter("weight", torch::zeros({3})); }
};
struct ParentOfOneChild : torch::nn::Module {
  ParentOfOneChild() {
    const auto child = std::make_shared<ChildOfTwoNames>();
    register_module("a", child);
    register_module("b", child);
  }
};

TEST(TiedWeights, OfAChildOfTwoNamesAreLoadedOnceWithTheSecond) {
  ParentOfOneChild module;
  const auto version = [&] { return module.parameters().at(0)._version(); };
  const auto before = version();
  load_state_dict(module, Dict::ordered({{"a.weight", view_of(torch::ones({3}))},
                                         {"b.weight", view_of(torch::full({3}, 2.0F))}}));
  EXPECT_TRUE(module.parameters().at(0).equal(torch::full({3}, 2.0F)));
  EXPECT_EQ(version(), before + 1);
}

TEST(TiedWeights, ATensorOfTheParentHasTheParentsName) {
  const auto net = std::make_shared<torch::nn::Module>("Net");
  const torch::nn::Linear child(2, 2);
  net->register_module("child", child.ptr());
  net->register_parameter("head", child->weight);
  EXPECT_THAT(names(named_parameters(*net)), ElementsAre("head", "child.bias"));
}

TEST(TiedWeights, AreSteppedOnceByEveryOptimizer) {
  const std::vector<OptimizerHandle> recipes = {
      SGD({.lr = 0.1, .momentum = 0.9}),
      Adam({.lr = 0.01}),
      AdamW({.lr = 0.01}),
      RMSprop({.lr = 0.01}),
      Adagrad({.lr = 0.1}),
      DecoupledSGDW({.lr = 0.1}),
      DecoupledAdamW({.lr = 0.01}),
  };
  for (const OptimizerHandle& recipe : recipes) {
    expect_twins_alike([&](TrainerOptions& options) { options.optimizers = recipe; });
  }
}

TEST(TiedWeights, AreCountedOnceByEveryWayOfClipping) {
  for (const char* type : {"norm", "value", "adaptive"}) {
    expect_twins_alike([&](TrainerOptions& options) {
      options.optimizers = SGD({.lr = 1});
      options.algorithms = GradientClipping({.clipping_type = type, .clipping_threshold = 0.01});
    });
  }
}

TEST(TiedWeights, AreAveragedOnceByEMA) {
  Value saved;
  expect_twins_alike([&](TrainerOptions& options) {
    const auto ema = std::make_shared<EMA>(EMAOptions{.half_life = "2ba"});
    options.algorithms = ema;
    options.callbacks =
        CallAt(Event::kFitEnd, [&saved, ema](State&) { saved = ema->state_dict(); });
  });
  const Value& average = saved.at("ema_model");
  EXPECT_THAT(keys(average.at("named_parameters_dict")),
              ElementsAre("first.linear.weight", "first.linear.bias"));
  EXPECT_THAT(keys(average.at("named_buffers_dict")), ElementsAre("first.scale"));
}

// A user's own optimizer, made with libtorch's list of parameters.
TEST(TiedWeights, AreSteppedOnceByAnOptimizerThatWasGivenThemTwice) {
  const auto model = std::make_shared<TiedModel>(/*tied=*/true);
  ASSERT_EQ(model->module().parameters().size(), 5);
  TrainerOptions own = options_of(model);
  own.optimizers = std::make_shared<torch::optim::SGD>(model->module().parameters(), 0.1);
  TrainerOptions twin = options_of(std::make_shared<TiedModel>(/*tied=*/false));
  twin.optimizers = SGD({.lr = 0.1});
  EXPECT_TRUE(weights_after(std::move(own)).equal(weights_after(std::move(twin))));
}

TEST(TiedWeights, InTwoGroupsOfAnOptimizerAreRefusedByName) {
  const auto model = std::make_shared<TiedModel>(/*tied=*/true);
  const std::vector<at::Tensor> all = parameters(model->module());
  const auto sgd = std::make_shared<torch::optim::SGD>(
      std::vector<torch::optim::OptimizerParamGroup>{
          torch::optim::OptimizerParamGroup({all[0], all[1]}),
          torch::optim::OptimizerParamGroup({all[0]})},
      torch::optim::SGDOptions(0.1));
  TrainerOptions options = options_of(model);
  options.optimizers = sgd;
  try {
    const Trainer trainer(std::move(options));
    FAIL() << "was taken";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("groups 0 and 1"), HasSubstr("\"first.linear.weight\"")));
  }
}

TEST(TiedWeights, HaveTheirGradientsUnscaledOnce) {
  const at::Tensor weight = torch::zeros({1}, torch::requires_grad());
  torch::optim::SGD sgd(std::vector<at::Tensor>{weight, weight}, 1.0);
  GradScaler scaler({.init_scale = 4});
  weight.mutable_grad() = torch::full({1}, 12.0);
  scaler.unscale_(sgd);
  EXPECT_EQ(weight.grad().item<float>(), 3);
}

TEST(TiedWeights, OptimizerStateHasThemOnceAndLoads) {
  TiedModel model(/*tied=*/true);
  torch::optim::AdamW twice(model.module().parameters(), 0.1);
  const auto once = AdamW({.lr = 0.1}).create(model.module().parameters());
  for (const at::Tensor& parameter : parameters(model.module()))
    parameter.mutable_grad() = torch::ones_like(parameter);
  once->step();
  const Value saved = optimizer_state_dict(*once, model.module());
  const List listed{"first.linear.weight", "first.linear.bias"};
  EXPECT_EQ(saved.at("param_groups").as_items().at(0).at("params"), Value(listed));
  load_optimizer_state_dict(twice, model.module(), saved);
  const Value again = optimizer_state_dict(twice, model.module());
  EXPECT_EQ(again.at("param_groups").as_items().at(0).at("params"), Value(listed));
  EXPECT_EQ(again.at("state"), saved.at("state"));
}

TEST(TiedWeights, ResumeFromACheckpointBitForBit) {
  const TempFolder folder;
  const auto run_options = [&](const char* until) {
    TrainerOptions options = options_of(std::make_shared<TiedModel>(/*tied=*/true));
    options.algorithms = EMA({.half_life = "2ba"});
    options.max_duration = until;
    return options;
  };
  const at::Tensor straight = weights_after(run_options("8ba"));
  TrainerOptions first = run_options("3ba");
  first.save_folder = folder.path();
  first.save_filename = "saved.pt";
  weights_after(std::move(first));
  TrainerOptions second = run_options("8ba");
  second.load_path = folder / "saved.pt";
  EXPECT_TRUE(weights_after(std::move(second)).equal(straight));
}

}  // namespace
}  // namespace cairn
