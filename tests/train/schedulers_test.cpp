#include "cairn/schedulers/schedulers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "testing/message_of.h"

namespace cairn {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Pointwise;

constexpr std::int64_t kBatchesPerEpoch = 10;

// Sets the state to batch `batch` of a run of 4 epochs of 10 batches.
void at_batch(State& state, std::int64_t batch) {
  state.max_duration = "4ep";
  state.dataloader_len = kBatchesPerEpoch;
  state.timestamp.batch = batch;
  state.timestamp.epoch = batch / kBatchesPerEpoch;
  state.timestamp.sample = batch * 8;
}

double alpha(const ComposerScheduler& scheduler, std::int64_t batch, double ssr = 1) {
  State state;
  at_batch(state, batch);
  return scheduler(state, ssr);
}

// The values at the batches for which Composer 0.33 printed the table below.
std::vector<double> alphas(const ComposerScheduler& scheduler) {
  std::vector<double> found;
  for (const std::int64_t batch : {0, 1, 4, 5, 10, 19, 20, 30, 39, 40, 50}) {
    found.push_back(alpha(scheduler, batch));
  }
  return found;
}

struct ReferenceRow {
  std::string name;
  std::shared_ptr<ComposerScheduler> scheduler;
  std::vector<double> expected;
};
void PrintTo(const ReferenceRow& row, std::ostream* out) { *out << row.name; }  // NOLINT: gtest's

template <class Scheduler, class Options>
std::shared_ptr<ComposerScheduler> make(Options options) {
  return std::make_shared<Scheduler>(std::move(options));
}

std::vector<ReferenceRow> simple_rows() {
  return {
      {"Linear",
       make<LinearScheduler>(LinearSchedulerOptions{}),
       {1, .975, .9, .875, .75, .525, .5, .25, .025, 0, 0}},
      {"Cosine",
       make<CosineAnnealingScheduler>(CosineAnnealingSchedulerOptions{}),
       {1, .998459, .975528, .96194, .853553, .53923, .5, .146447, .001541, 0, 0}},
      {"CosineRestarts",
       make<CosineAnnealingWarmRestartsScheduler>(
           CosineAnnealingWarmRestartsSchedulerOptions{.t_0 = "10ba", .t_mult = 2}),
       {1, .975528, .654508, .5, 1, .578217, .5, 1, .880203, .853553, .5}},
      {"Exponential",
       make<ExponentialScheduler>(ExponentialSchedulerOptions{.gamma = .9}),
       {1, .989519, .958732, .948683, .9, .818579, .81, .729, .663049, .6561, .59049}},
      {"Polynomial",
       make<PolynomialScheduler>(PolynomialSchedulerOptions{.power = 2}),
       {1, .950625, .81, .765625, .5625, .275625, .25, .0625, .000625, 0, 0}},
      {"Step",
       make<StepScheduler>(StepSchedulerOptions{.step_size = "5ba"}),
       {1, 1, 1, .1, .01, .001, .0001, 1e-6, 1e-7, 1e-8, 1e-10}},
      {"MultiStep",
       make<MultiStepScheduler>(MultiStepSchedulerOptions{.milestones = {"10ba", "0.5dur"}}),
       {1, 1, 1, 1, .1, .1, .01, .01, .01, .01, .01}},
      {"Constant",
       make<ConstantScheduler>(ConstantSchedulerOptions{.alpha = .5, .t_max = "10ba"}),
       {.5, .5, .5, .5, 1, 1, 1, 1, 1, 1, 1}},
  };
}

std::vector<ReferenceRow> warmup_rows() {
  return {
      {"LinearWarmup",
       make<LinearWithWarmupScheduler>(LinearWithWarmupSchedulerOptions{.t_warmup = "5ba"}),
       {0, .2, .8, 1, .857143, .6, .571429, .285714, .028571, 0, 0}},
      {"CosineWarmup",
       make<CosineAnnealingWithWarmupScheduler>(
           CosineAnnealingWithWarmupSchedulerOptions{.t_warmup = "5ba"}),
       {0, .2, .8, 1, .950484, .654508, .61126, .188255, .002013, 0, 0}},
      {"PolyWarmup",
       make<PolynomialWithWarmupScheduler>(PolynomialWithWarmupSchedulerOptions{.t_warmup = "5ba"}),
       {0, .2, .8, 1, .734694, .36, .326531, .081633, .000816, 0, 0}},
      {"MultiStepWarmup",
       make<MultiStepWithWarmupScheduler>(
           MultiStepWithWarmupSchedulerOptions{.t_warmup = "5ba", .milestones = {"20ba"}}),
       {0, .2, .8, 1, 1, 1, .1, .1, .1, .1, .1}},
      {"ConstantWarmup",
       make<ConstantWithWarmupScheduler>(
           ConstantWithWarmupSchedulerOptions{.t_warmup = "5ba", .alpha = .5}),
       {0, .1, .4, .5, .5, .5, .5, .5, .5, .5, .5}},
  };
}

class ReferenceTest : public ::testing::TestWithParam<ReferenceRow> {};

TEST_P(ReferenceTest, GivesComposersValues) {
  EXPECT_THAT(alphas(*GetParam().scheduler), Pointwise(DoubleNear(6e-7), GetParam().expected));
}

constexpr auto kRowName = [](const auto& made) { return made.param.name; };
INSTANTIATE_TEST_SUITE_P(Simple, ReferenceTest, ::testing::ValuesIn(simple_rows()), kRowName);
INSTANTIATE_TEST_SUITE_P(Warmup, ReferenceTest, ::testing::ValuesIn(warmup_rows()), kRowName);

TEST(SchedulersTest, ScaleScheduleRatioShortensTimesThatAreNotFractionsOfTheRun) {
  const StepScheduler steps({.step_size = "10ba"});
  EXPECT_DOUBLE_EQ(alpha(steps, 5, 0.5), 0.1);
  // An epoch is 10 batches, so half of the step size is not 0.
  const StepScheduler epochs({.step_size = "1ep"});
  EXPECT_DOUBLE_EQ(alpha(epochs, 4, 0.5), 1);
  EXPECT_DOUBLE_EQ(alpha(epochs, 5, 0.5), 0.1);
  const LinearScheduler whole_run;  // The Trainer has scaled max_duration already.
  EXPECT_DOUBLE_EQ(alpha(whole_run, 20, 0.5), 0.5);
}

TEST(SchedulersTest, WarmupEndIsNotScaledButItsSlopeIsWhenAsked) {
  const MultiStepWithWarmupScheduler plain({.t_warmup = "10ba", .milestones = {}});
  EXPECT_DOUBLE_EQ(alpha(plain, 4, 0.5), 0.4);
  const MultiStepWithWarmupScheduler steep(
      {.t_warmup = "10ba", .milestones = {"12ba"}, .scale_warmup = true});
  EXPECT_DOUBLE_EQ(alpha(steep, 4, 0.5), 0.8);
  EXPECT_DOUBLE_EQ(alpha(steep, 7, 0.5), 1);  // Held, although the milestone (6ba) has passed.
  EXPECT_DOUBLE_EQ(alpha(steep, 10, 0.5), 0.1);
}

TEST(SchedulersTest, CountsInTheUnitOfTheOption) {
  const LinearScheduler samples({.t_max = "160sp"});
  EXPECT_DOUBLE_EQ(alpha(samples, 10), 0.5);
}

TEST(SchedulersTest, WarmRestartsAgreeWithWalkingEveryCycle) {
  const CosineAnnealingWarmRestartsScheduler alike({.t_0 = "7ba"});
  EXPECT_DOUBLE_EQ(alpha(alike, 7), 1);
  EXPECT_DOUBLE_EQ(alpha(alike, 1'000'000'000), alpha(alike, 1'000'000'000 % 7));
}

TEST(SchedulersTest, WarmRestartsRefuseACycleOfNoLength) {
  const CosineAnnealingWarmRestartsScheduler shrinking({.t_0 = "2ba", .t_mult = 0.5});
  EXPECT_DOUBLE_EQ(alpha(shrinking, 0), 1);
  EXPECT_THAT(message_of<UsageError>([&] { alpha(shrinking, 3); }), HasSubstr("length 0"));
  const CosineAnnealingWarmRestartsScheduler none({.t_0 = "0ba"});
  EXPECT_THROW(alpha(none, 0), UsageError);
}

TEST(SchedulersTest, RefuseSecondsAndAnEpochOfUnknownLength) {
  EXPECT_THAT(message_of<UsageError>([] { alpha(LinearScheduler({.t_max = "30sec"}), 0); }),
              HasSubstr("30sec"));
  State state;
  at_batch(state, 0);
  state.dataloader_len.reset();
  EXPECT_THAT(message_of<UsageError>([&] { LinearScheduler()(state, 1); }),
              HasSubstr("train_subset_num_batches"));
  state.max_duration.reset();
  EXPECT_THAT(message_of<UsageError>([&] { LinearScheduler()(state, 1); }),
              HasSubstr("max_duration"));
}

TEST(SchedulersTest, WarmupRefusesUnitsThatCannotBeCompared) {
  const LinearWithWarmupScheduler scheduler({.t_warmup = "100sp", .t_max = "40ba"});
  EXPECT_THAT(message_of<UsageError>([&] { alpha(scheduler, 0); }), HasSubstr("t_warmup (100sp)"));
}

TEST(SchedulersTest, WarmupRefusesAnEndBeforeTheEndOfTraining) {
  const CosineAnnealingWithWarmupScheduler early({.t_warmup = "5ba", .t_max = "39ba"});
  EXPECT_THAT(message_of<UsageError>([&] { alpha(early, 0); }), HasSubstr("max_duration (4ep)"));
  const CosineAnnealingWithWarmupScheduler late({.t_warmup = "5ba", .t_max = "41ba"});
  EXPECT_DOUBLE_EQ(alpha(late, 5), 1);
}

TEST(SchedulersTest, RequiredNumbersAreAskedFor) {
  EXPECT_THAT(message_of<UsageError>([] { ExponentialScheduler(ExponentialSchedulerOptions{}); }),
              HasSubstr("gamma is required"));
  EXPECT_THAT(message_of<UsageError>([] { PolynomialScheduler(PolynomialSchedulerOptions{}); }),
              HasSubstr("power is required"));
}

// --- In use --------------------------------------------------------------------------------------

TEST(LambdaLRTest, SetsTheRateAtOnceAndAtEachStepAndKeepsTheInitialOne) {
  State state;
  at_batch(state, 0);
  const auto optimizer = SGD({.lr = 0.01}).create({torch::zeros(2, torch::requires_grad())});
  const ConstantScheduler half({.alpha = 0.5});
  const auto running = attach_lambda_lr(half, state, *optimizer, 1);
  EXPECT_DOUBLE_EQ(learning_rates(*optimizer)[0], 0.005);
  const LinearScheduler linear;
  const auto second = attach_lambda_lr(linear, state, *optimizer, 1);  // The last scheduler wins.
  at_batch(state, 10);
  running->step();
  second->step();
  EXPECT_DOUBLE_EQ(learning_rates(*optimizer)[0], 0.0075);
}

TEST(LambdaLRTest, HasPythonsState) {
  State state;
  at_batch(state, 0);
  const auto optimizer = SGD({.lr = 0.5}).create({torch::zeros(2, torch::requires_grad())});
  const LinearScheduler linear;
  const auto running = attach_lambda_lr(linear, state, *optimizer, 1);
  at_batch(state, 20);
  running->step();
  EXPECT_EQ(running->name(), "LambdaLR");
  EXPECT_EQ(running->state_dict(), (Dict{{"base_lrs", List{0.5}},
                                         {"last_epoch", 1},
                                         {"verbose", false},
                                         {"_step_count", 2},
                                         {"_get_lr_called_within_step", false},
                                         {"_last_lr", List{0.25}},
                                         {"lr_lambdas", List{None{}}}}));
}

TEST(LambdaLRTest, LoadedBaseRatesDriveTheNextStep) {
  State state;
  at_batch(state, 20);
  const auto optimizer = SGD({.lr = 0.5}).create({torch::zeros(2, torch::requires_grad())});
  const LinearScheduler linear;
  const auto running = attach_lambda_lr(linear, state, *optimizer, 1);
  running->load_state_dict(Dict{{"base_lrs", List{8.0}}, {"last_epoch", 20}, {"_step_count", 21}});
  // The rate comes with the optimizer's state.
  EXPECT_DOUBLE_EQ(learning_rates(*optimizer)[0], 0.25);
  running->step();
  EXPECT_DOUBLE_EQ(learning_rates(*optimizer)[0], 4);
  EXPECT_EQ(running->state_dict().at("last_epoch").as_int(), 21);
}

// In Python, base_lrs are tensors if the optimizer is Adam(lr=tensor).
TEST(LambdaLRTest, TakesBaseRatesThatAreTensors) {
  State state;
  at_batch(state, 20);
  const auto optimizer = Adam({.lr = 0.5}).create({torch::zeros(2, torch::requires_grad())});
  const LinearScheduler linear;
  const auto running = attach_lambda_lr(linear, state, *optimizer, 1);
  const Value rate = view_of(torch::tensor(8.0));
  running->load_state_dict(Dict{
      {"base_lrs", List{rate}}, {"last_epoch", 20}, {"_step_count", 21}, {"_last_lr", List{rate}}});
  running->step();
  EXPECT_DOUBLE_EQ(learning_rates(*optimizer)[0], 4);
}

TEST(LambdaLRTest, RefusesAStateThatDoesNotFitAndKeepsItsOwn) {
  State state;
  at_batch(state, 0);
  const auto optimizer = SGD({.lr = 0.5}).create({torch::zeros(2, torch::requires_grad())});
  const LinearScheduler linear;
  const auto running = attach_lambda_lr(linear, state, *optimizer, 1);
  const Value before = running->state_dict();
  EXPECT_THROW(running->load_state_dict(Dict{}), MismatchError);
  EXPECT_THROW(running->load_state_dict("text"), MismatchError);
  EXPECT_THROW(running->load_state_dict(
                   Dict{{"base_lrs", List{1.0, 2.0}}, {"last_epoch", 4}, {"_step_count", 5}}),
               MismatchError);
  EXPECT_EQ(running->state_dict(), before);
}

}  // namespace
}  // namespace cairn
