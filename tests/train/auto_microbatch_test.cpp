// device_train_microbatch_size "auto", on a simulated device whose memory runs out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/sim_device.h"
#include "testing/tiny_model.h"
#include "train/loop/microbatches.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::EventRecorder;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using testing::SimMemoryLimit;

constexpr std::int64_t kSamples = 16;
constexpr std::int64_t kWidth = 8;
constexpr std::uint64_t kMemoryOfFour = 4 * kWidth * sizeof(float);  // The activations of a layer.

// Linear(4, 8), dropout, a buffer with the mean of all activations so far, Linear(8, 3).
class SimModel final : public Model {
 public:
  SimModel() {
    torch::manual_seed(1);
    first_ = net_->register_module("first", torch::nn::Linear(4, kWidth));
    second_ = net_->register_module("second", torch::nn::Linear(kWidth, 3));
    mean_ = net_->register_buffer("mean", torch::zeros({kWidth}));
    for (const at::Tensor& parameter : net_->parameters())
      testing::move_to_sim_device(parameter);
    testing::move_to_sim_device(mean_);
  }
  torch::nn::Module& module() override { return *net_; }
  Outputs forward(const Batch& batch) override {
    at::Tensor hidden = first_(batch[0].to(at::kFloat).to(testing::sim_device()));
    hidden = torch::dropout(torch::tanh(hidden), 0.5, net_->is_training());
    const torch::NoGradGuard no_grad;
    mean_.mul_(0.9).add_(hidden.detach().mean(0), 0.1);
    const torch::AutoGradMode with_gradients(true);
    return second_(hidden);
  }
  Losses loss(const Outputs& outputs, const Batch& batch) override {
    const at::Tensor target = batch[1].to(testing::sim_device());
    return torch::nn::functional::cross_entropy(outputs.single(), target);
  }
  Metrics get_metrics(bool /*is_train*/) override {
    return {{"MeanOutput", std::make_shared<testing::MeanOutput>()}};
  }
  void update_metric(const Batch& batch, const Outputs& outputs, Metric& metric) override {
    metric.update(outputs.single().cpu(), batch[1]);
  }

 private:
  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>("SimModel");
  torch::nn::Linear first_{nullptr};
  torch::nn::Linear second_{nullptr};
  at::Tensor mean_;
};

class AutoMicrobatch : public ::testing::Test {
 protected:
  AutoMicrobatch() { testing::let_sim_device_compute(); }

  // Batches of 16 samples; three of them.
  TrainerOptions options() {
    TrainerOptions options = testing::tiny_options();
    options.model = std::make_shared<SimModel>();
    options.train_dataloader = testing::tiny_loader(kSamples * 3, {.batch_size = kSamples});
    options.optimizers = SGD({.lr = 0.1});
    options.max_duration = "3ba";
    options.callbacks = {events_};
    options.loggers = {log_};
    return options;
  }

  // The option is refused here, because TrainerOptions::device knows CPUs and CUDA's GPUs only.
  static void turn_on(Trainer& trainer) { trainer.state().auto_microbatching = true; }

  struct Result {
    std::vector<at::Tensor> tensors;
    double loss;
    double metric;
    at::Tensor next_random;
  };
  static Result result_of(Trainer& trainer) {
    Result result = {.tensors = {},
                     .loss = trainer.state().total_loss_dict.at("loss/train/total").as_float(),
                     .metric = trainer.state().metric_value("train", "MeanOutput").value(),
                     .next_random = at::rand({4})};
    torch::nn::Module& module = trainer.state().model->module();
    for (const at::Tensor& parameter : module.parameters())
      result.tensors.push_back(parameter.detach().cpu());
    for (const at::Tensor& buffer : module.buffers())
      result.tensors.push_back(buffer.cpu());
    return result;
  }
  static void expect_same(const Result& one, const Result& other) {
    ASSERT_EQ(one.tensors.size(), other.tensors.size());
    for (std::size_t i = 0; i < one.tensors.size(); ++i)
      EXPECT_TRUE(at::equal(one.tensors[i], other.tensors[i])) << i;
    EXPECT_EQ(one.loss, other.loss);
    EXPECT_EQ(one.metric, other.metric);
    EXPECT_TRUE(at::equal(one.next_random, other.next_random));
  }
  // The results of a run that has this size from its start.
  Result expected(std::int64_t size) {
    TrainerOptions fixed = options();
    fixed.device_train_microbatch_size = size;
    Trainer trainer(std::move(fixed));
    trainer.fit();
    return result_of(trainer);
  }

  std::shared_ptr<EventRecorder> events_ = std::make_shared<EventRecorder>();
  std::shared_ptr<LogRecorder> log_ = std::make_shared<LogRecorder>();
};

TEST_F(AutoMicrobatch, TrainsAsIfTheSizeThatFitsHadBeenGiven) {
  const Result four = expected(4);
  events_ = std::make_shared<EventRecorder>();
  log_ = std::make_shared<LogRecorder>();
  Trainer trainer(options());
  turn_on(trainer);
  const SimMemoryLimit limit(kMemoryOfFour);
  trainer.fit();
  expect_same(result_of(trainer), four);
  EXPECT_EQ(limit.failures(), 2U);  // 16 samples, then 8; the later batches begin with 4.
  EXPECT_EQ(trainer.state().device_train_microbatch_size, 4);
  EXPECT_THAT(log_->values("trainer/device_train_microbatch_size"), ElementsAre(4, 4, 4));
  EXPECT_THAT(log_->messages, ::testing::Contains(HasSubstr("\"auto\" was 16, and is 8")));
  EXPECT_THAT(log_->messages, ::testing::Contains(HasSubstr("\"auto\" was 8, and is 4")));
  EXPECT_EQ(events_->count("batch_start"), 3);
  EXPECT_EQ(events_->count("before_train_batch"), 3 + 2);  // As in Composer.
  EXPECT_EQ(events_->count("after_train_batch"), 3);
}

TEST_F(AutoMicrobatch, BeginsAgainAfterABackwardThatRanOut) {
  Trainer trainer(options());
  turn_on(trainer);
  std::optional<SimMemoryLimit> limit;
  // The memory runs out in the second batch only.
  trainer.state().callbacks.push_back(
      std::make_shared<CallAt>(Event::kBeforeBackward, [&](State& state) {
        if (state.timestamp.batch == 1 && !state.device_train_microbatch_size)
          limit.emplace(kMemoryOfFour);
      }));
  trainer.state().callbacks.push_back(
      std::make_shared<CallAt>(Event::kBeforeTrainBatch, [&](State& state) {
        limit.reset();
        if (state.timestamp.batch == 1 && state.device_train_microbatch_size == 8) {
          for (const at::Tensor& parameter : state.model->module().parameters())
            EXPECT_FALSE(parameter.grad().defined());
        }
      }));
  trainer.fit();
  EXPECT_EQ(trainer.state().device_train_microbatch_size, 8);
  EXPECT_EQ(events_->count("before_train_batch"), 3 + 1);
}

TEST_F(AutoMicrobatch, ComputesTheWholeBatchWhileItFits) {
  const Result whole = expected(kSamples);
  Trainer trainer(options());
  turn_on(trainer);
  trainer.fit();
  expect_same(result_of(trainer), whole);
  EXPECT_EQ(trainer.state().device_train_microbatch_size, std::nullopt);
}

TEST_F(AutoMicrobatch, BeginsAnewWithAnotherLoader) {
  Trainer trainer(options());
  turn_on(trainer);
  {
    const SimMemoryLimit limit(kMemoryOfFour);
    trainer.fit({.duration = "1ba"});
  }
  EXPECT_EQ(trainer.state().device_train_microbatch_size, 4);
  trainer.fit({.duration = "1ba"});
  EXPECT_EQ(trainer.state().device_train_microbatch_size, 4);
  trainer.fit({.train_dataloader = testing::tiny_loader(kSamples, {.batch_size = kSamples}),
               .duration = "1ba"});
  EXPECT_EQ(trainer.state().device_train_microbatch_size, std::nullopt);
}

TEST_F(AutoMicrobatch, SaysThatOneSampleDoesNotFit) {
  Trainer trainer(options());
  turn_on(trainer);
  const SimMemoryLimit limit(kMemoryOfFour / 4);  // Backward needs more.
  try {
    trainer.fit();
    FAIL() << "nothing was thrown";
  } catch (const TrainingError& error) {
    EXPECT_THAT(error.what(), HasSubstr("training failed in batch 0 of epoch 0"));
    EXPECT_THAT(error.what(), HasSubstr("for even one sample at a time"));
    EXPECT_TRUE(is_out_of_device_memory(error));  // The device's own error is nested in it.
  }
  EXPECT_EQ(limit.failures(), 5U);  // 16, 8, 4, 2, 1
}

TEST_F(AutoMicrobatch, LeavesOtherErrorsAlone) {
  Trainer trainer(options());
  turn_on(trainer);
  trainer.state().callbacks.push_back(std::make_shared<CallAt>(
      Event::kAfterForward, [](State&) { throw std::runtime_error("of the user"); }));
  EXPECT_THAT(message_of<TrainingError>([&] { trainer.fit(); }), HasSubstr("of the user"));
  EXPECT_EQ(events_->count("before_train_batch"), 1);
}

TEST_F(AutoMicrobatch, WithoutItTheErrorEndsTheRun) {
  Trainer trainer(options());
  const SimMemoryLimit limit(kMemoryOfFour);
  EXPECT_THAT(message_of<TrainingError>([&] { trainer.fit(); }), HasSubstr("no memory for"));
  EXPECT_EQ(limit.failures(), 1U);
}

TEST_F(AutoMicrobatch, KnowsWhatDevicesSay) {
  EXPECT_TRUE(is_out_of_device_memory(std::runtime_error("CUDA error: out of memory")));
  EXPECT_FALSE(is_out_of_device_memory(std::runtime_error("a shape")));
  EXPECT_FALSE(is_out_of_device_memory(std::bad_alloc()));
}

TEST_F(AutoMicrobatch, IsRefusedWhereItCannotWork) {
  TrainerOptions on_cpu = testing::tiny_options();
  on_cpu.device = "cpu";
  on_cpu.device_train_microbatch_size = "auto";
  EXPECT_THAT(message_of<UsageError>([&] { resolve(on_cpu); }),
              HasSubstr("device_train_microbatch_size 'auto' needs device gpu"));
  EXPECT_THAT(auto_microbatch_problem(/*on_cpu=*/false, /*is_sharded=*/true),
              HasSubstr("does not go with a sharded model"));
  EXPECT_EQ(auto_microbatch_problem(/*on_cpu=*/false, /*is_sharded=*/false), "");
  Trainer trainer(testing::tiny_options());
  EXPECT_THAT(
      message_of<UsageError>([&] { trainer.fit({.device_train_microbatch_size = "auto"}); }),
      HasSubstr("fit():"));
  EXPECT_THAT(message_of<UsageError>([&] { on_cpu.device_train_microbatch_size = "atuo"; }),
              HasSubstr("device_train_microbatch_size is 'atuo'; give a number of samples, or"));
}

}  // namespace
}  // namespace cairn
