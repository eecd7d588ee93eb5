// Loads optimizer states written by PyTorch 1.13, 2.6 and 2.14 into libtorch's optimizers, and
// writes them again.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/state_dict.h"

#include "share.h"

namespace cairn {
namespace {

using testing::share;

struct Fixture {
  std::string file;
  std::shared_ptr<OptimizerRecipe> recipe;
};
void PrintTo(const Fixture& made, std::ostream* out) { *out << made.file; }  // NOLINT: gtest's name

std::vector<Fixture> fixtures() {
  std::vector<Fixture> all;
  for (const std::string version : {"1.13", "2.6", "2.14"}) {
    const std::string folder = CAIRN_TEST_DATA "/torch-" + version + "/optimizer_";
    all.push_back({folder + "sgd.pt", share(SGD({.momentum = 0.1}))});
    all.push_back({folder + "sgd_plain.pt", share(SGD())});
    all.push_back({folder + "adam.pt", share(Adam())});
    all.push_back({folder + "adamw.pt", share(AdamW())});
    all.push_back({folder + "rmsprop.pt", share(RMSprop())});
    all.push_back({folder + "adagrad.pt", share(Adagrad())});
    all.push_back({folder + "lbfgs.pt", share(LBFGS())});
  }
  return all;
}

// A net with parameters 0.weight, 0.bias, 2.weight and 2.bias, and the file's weights.
torch::nn::Sequential net_of(const Value& file) {
  torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Tanh(), torch::nn::Linear(4, 2));
  load_state_dict(*net, file.at("model"));
  return net;
}

// Expects equal content and type. `step` may have become a tensor, or a tensor of another dtype.
void expect_same(const Value& found, const Value& expected, const std::string& where) {
  if (found.is_tensor() && expected.is_tensor()) {
    const at::Tensor a = tensor_of(found.as_tensor()).to(at::kDouble);
    EXPECT_TRUE(a.equal(tensor_of(expected.as_tensor()).to(at::kDouble))) << where;
  } else if (found.is_tensor()) {
    EXPECT_EQ(tensor_of(found.as_tensor()).item<double>(), expected.as_float()) << where;
  } else if (found.is_list()) {
    ASSERT_EQ(found.as_items().size(), expected.as_items().size()) << where;
    for (std::size_t i = 0; i < found.as_items().size(); ++i)
      expect_same(found.as_items()[i], expected.as_items()[i], where);
  } else {
    EXPECT_EQ(found, expected) << where;
    EXPECT_EQ(found.kind(), expected.kind()) << where;
  }
}

class FixtureTest : public ::testing::TestWithParam<Fixture> {};
INSTANTIATE_TEST_SUITE_P(PyTorch, FixtureTest, ::testing::ValuesIn(fixtures()),
                         [](const auto& made) {
                           std::string name =
                               made.param.file.substr(made.param.file.find("torch-") + 6);
                           name.resize(name.size() - 3);
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

TEST_P(FixtureTest, LoadsAndWritesTheSameValues) {
  const Value file = load(GetParam().file);
  auto net = net_of(file);
  const auto optimizer = GetParam().recipe->create(net->parameters());
  load_optimizer_state_dict(*optimizer, *net, file.at("optimizer"));
  const Value found = optimizer_state_dict(*optimizer, *net);

  const std::vector<std::string> names = {"0.weight", "0.bias", "2.weight", "2.bias"};
  for (const auto& [index, state] : file.at("optimizer").at("state").as_dict()) {
    for (const auto& [key, value] : state.as_dict()) {
      if (value.is_none()) continue;  // 1.13's SGD without momentum
      const std::string& name = names.at(static_cast<std::size_t>(index.as_int()));
      expect_same(found.at("state").at(name).at(key.as_str()), value, name + "/" + key.as_str());
    }
  }
  EXPECT_LE(found.at("state").as_dict().size(), file.at("optimizer").at("state").as_dict().size());

  const Value& group = found.at("param_groups").as_items().at(0);
  for (const auto& [key, value] :
       file.at("optimizer").at("param_groups").as_items().at(0).as_dict()) {
    if (key.as_str() != "params") expect_same(group.at(key.as_str()), value, key.as_str());
  }
}

TEST_P(FixtureTest, TrainsOn) {
  const Value file = load(GetParam().file);
  auto net = net_of(file);
  const auto optimizer = GetParam().recipe->create(net->parameters());
  load_optimizer_state_dict(*optimizer, *net, file.at("optimizer"));
  const auto loss = [&] {
    return torch::mse_loss(net->forward(tensor_of(file.at("x").as_tensor())),
                           tensor_of(file.at("y").as_tensor()));
  };
  const double before = loss().item<double>();
  optimizer->step([&] {
    optimizer->zero_grad();
    at::Tensor value = loss();
    value.backward();
    return value;
  });
  EXPECT_NE(loss().item<double>(), before);
  EXPECT_TRUE(std::isfinite(loss().item<double>()));
}

TEST(OptimizerFixtureTest, StatesOfAnotherOptimizerAreRefused) {
  const Value file = load(CAIRN_TEST_DATA "/torch-2.6/optimizer_lbfgs.pt");
  auto net = net_of(file);
  const auto optimizer = AdamW().create(net->parameters());
  EXPECT_THROW(load_optimizer_state_dict(*optimizer, *net, file.at("optimizer")), MismatchError);
}

}  // namespace
}  // namespace cairn
