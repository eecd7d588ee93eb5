// A GradScaler on a device whose fused optimizer leaves out a step by itself: nothing waits for the
// device, and the bits are those of a run that reads in each batch whether a gradient was finite.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/logger.h"
#include "cairn/train/model.h"
#include "cairn/train/scaler.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "encoded_bytes.h"
#include "testing/optimizer_cases.h"
#include "testing/sim_device.h"
#include "train/optimizer/optimizer_gatherer.h"
#include "train/optimizer/param_state.h"

namespace cairn {
namespace {

using AdamState = torch::optim::AdamParamState;

constexpr int kBatches = 24;
constexpr std::size_t kWeights = 5;
// A scale of 65536 or more overflows in half precision: batches 0 to 3, and then each fourth one.
constexpr GradScalerOptions kScaling = {.init_scale = 65536 * 8, .growth_interval = 3};
constexpr int kFirstStep = 4;
// The first batches in which the last weight has a gradient.
constexpr int kLateOverflow = 7;
constexpr int kLateStep = 9;

struct Weights : torch::nn::Module {
  Weights() {
    for (std::size_t i = 0; i < kWeights; ++i) {
      all.push_back(register_parameter("weight" + std::to_string(i), numbers(i, 0)));
      testing::move_to_sim_device(all.back());
    }
  }
  static at::Tensor numbers(std::size_t weight, int batch) {
    const auto count = static_cast<std::int64_t>(2 + weight);
    return (at::arange(1, count + 1, at::kFloat) * (1.5 + static_cast<double>(weight)) + batch)
        .sin_();
  }
  at::Tensor forward(const at::Tensor& x) { return x; }

  std::vector<at::Tensor> all;
};

enum class Reads { kNothing, kFoundInf };

// A loop in half precision. With Reads::kFoundInf the host reads in each batch whether it
// overflows.
class HalfRun {
 public:
  explicit HalfRun(const OptimizerRecipe& recipe, Reads reads = Reads::kNothing)
      : optimizer(recipe.create(net->parameters())), reads_(reads) {
    state_.model = classifier(net);
  }

  void train(int begin, int end) {
    for (int k = begin; k < end; ++k) {
      const std::uint64_t before = testing::sim_device_waits();
      backward(k);
      scaler.unscale_(*optimizer);
      if (reads_ == Reads::kFoundInf) scaler.agree_over_ranks();
      GradientClipping({.clipping_type = "norm", .clipping_threshold = 1})
          .apply(Event::kAfterTrainBatch, state_, logger_);
      scaler.step(*optimizer);
      scaler.update();
      waits.push_back(testing::sim_device_waits() - before);
    }
  }
  std::string saved() const { return bytes_of(state()); }
  Value state() const {
    return Dict{{"model", state_dict(*net)},
                {"optimizer", optimizer_state_dict(*optimizer, *net)},
                {"scaler", scaler.state_dict()}};
  }
  void load(const Value& state) {
    load_state_dict(*net, state.at("model"));
    load_optimizer_state_dict(*optimizer, *net, state.at("optimizer"));
    scaler.load_state_dict(state.at("scaler"));
  }
  std::int64_t count_of(std::size_t weight) const {
    return static_cast<AdamState&>(*find_param_state(*optimizer, net->all[weight])).step();
  }

  std::shared_ptr<Weights> net = std::make_shared<Weights>();
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  GradScaler scaler{kScaling};
  std::vector<std::uint64_t> waits;

 private:
  // The last weight has a gradient in two of three batches, from kLateOverflow on.
  void backward(int k) {
    at::Tensor loss;
    for (std::size_t i = 0; i < kWeights; ++i) {
      net->all[i].mutable_grad().reset();
      if (i + 1 == kWeights && (k < kLateOverflow || k % 3 == 2)) continue;
      const at::Tensor input = Weights::numbers(i, k + 1).to(testing::sim_device(), true);
      const at::Tensor part =
          (net->all[i].to(at::kHalf) * input.to(at::kHalf)).to(at::kFloat).sum();
      loss = loss.defined() ? loss + part : part;
    }
    scaler.scale(loss).backward();
  }

  State state_;
  Logger logger_{state_};
  Reads reads_;
};

class DeviceScalerTest : public ::testing::Test {
 protected:
  DeviceScalerTest() { testing::let_sim_device_compute(); }

  const Adam adam{{.lr = 0.1, .weight_decay = 0.1, .amsgrad = true}};
  std::optional<testing::SimLists> lists{std::in_place, /*fused=*/true};
};

TEST_F(DeviceScalerTest, NothingWaitsForTheDevice) {
  HalfRun run(adam);
  HalfRun reading(adam, Reads::kFoundInf);
  int overflows = 0;
  for (int k = 0; k < kBatches; ++k) {
    const double before = reading.scaler.get_scale();
    run.train(k, k + 1);
    reading.train(k, k + 1);
    const bool overflowed = reading.scaler.get_scale() < before;
    overflows += overflowed ? 1 : 0;
    EXPECT_EQ(reading.waits[k], 1);
    // The host makes the first step of a parameter.
    const bool is_first = k <= kFirstStep || k == kLateOverflow || k == kLateStep;
    EXPECT_EQ(run.waits[k] > 0, is_first) << k << (overflowed ? " overflowed" : "");
  }
  EXPECT_GE(overflows, 8);
  EXPECT_EQ(run.scaler.get_scale(), reading.scaler.get_scale());
}

TEST_F(DeviceScalerTest, TheBitsAreThoseOfARunThatReads) {
  testing::OptimizerCases cases;
  const auto add = testing::adder(cases);
  add("Adam", adam);
  add("AdamW", AdamW({.lr = 0.1, .weight_decay = 0.1}));
  add("AdamW_without_decay", AdamW({.lr = 0.1, .weight_decay = 0}));
  add("DecoupledAdamW", DecoupledAdamW({.lr = 0.1, .weight_decay = 0.01}));
  add("DecoupledAdamW_without_decay", DecoupledAdamW({.lr = 0.1, .weight_decay = 0}));
  add("not_fused", Adam({.lr = 0.1, .fused = false}));
  add("SGD", SGD({.lr = 0.1, .momentum = 0.9}));
  for (const testing::OptimizerCase& made : cases) {
    SCOPED_TRACE(made.name);
    HalfRun run(*made.recipe);
    HalfRun reading(*made.recipe, Reads::kFoundInf);
    run.train(0, kBatches);
    reading.train(0, kBatches);
    EXPECT_EQ(run.saved(), reading.saved());
  }
}

TEST_F(DeviceScalerTest, EachSaveIsThatOfARunThatReadsAndResumes) {
  HalfRun run(adam);
  HalfRun reading(adam, Reads::kFoundInf);
  std::vector<std::string> saves;
  for (int k = 0; k < kBatches; ++k) {
    saves.push_back(reading.saved());
    EXPECT_EQ(run.saved(), saves.back()) << k;
    run.train(k, k + 1);
    reading.train(k, k + 1);
  }
}

TEST_F(DeviceScalerTest, ASaveResumes) {
  HalfRun reading(adam, Reads::kFoundInf);
  reading.train(0, kBatches);
  HalfRun run(adam);
  run.train(0, 13);
  const Value saved = run.state();
  HalfRun resumed(adam);
  resumed.train(0, 17);  // Has left out steps that the saved run has not.
  resumed.load(saved);
  resumed.train(13, kBatches);
  EXPECT_EQ(resumed.saved(), reading.saved());
  run.train(13, kBatches);
  EXPECT_EQ(run.saved(), reading.saved());
}

TEST_F(DeviceScalerTest, AGathererGetsTheSettledCounts) {
  HalfRun run(adam);
  HalfRun reading(adam, Reads::kFoundInf);
  OptimizerGatherer gatherer;
  for (int k = 0; k < kBatches; k += 3) {
    run.train(k, k + 3);
    reading.train(k, k + 3);
    EXPECT_EQ(bytes_of(gatherer.gather(*run.optimizer, *run.net)),
              bytes_of(optimizer_state_dict(*reading.optimizer, *reading.net)));
  }
}

TEST_F(DeviceScalerTest, AnArchiveOfLibtorchGetsThem) {
  HalfRun run(adam);
  run.train(0, 13);
  EXPECT_EQ(run.count_of(0), 8);
  torch::serialize::OutputArchive archive;
  run.optimizer->save(archive);
  EXPECT_EQ(run.count_of(0), 7);
  EXPECT_EQ(run.count_of(kWeights - 1), 3);
}

TEST_F(DeviceScalerTest, TheHostTakesOverWhereTheDeviceHasNoOperator) {
  HalfRun run(adam);
  HalfRun reading(adam, Reads::kFoundInf);
  for (int k = 0; k < kBatches; k += 6) {
    run.train(k, k + 6);
    reading.train(k, k + 6);
    lists ? lists.reset() : void(lists.emplace(/*fused=*/true));
  }
  EXPECT_EQ(run.saved(), reading.saved());
}

TEST_F(DeviceScalerTest, AProgramMayClearTheState) {
  HalfRun run(adam);
  HalfRun reading(adam, Reads::kFoundInf);
  for (HalfRun* const each : {&run, &reading}) {
    each->train(0, 13);
    each->optimizer->state().clear();
    each->train(13, kBatches);
  }
  EXPECT_EQ(run.saved(), reading.saved());
}

}  // namespace
}  // namespace cairn
