// Optimizers in the Trainer. An optimizer that cannot be saved, or that trains nothing, is refused
// before training. Also tests the closure of LBFGS.

#include <gmock/gmock.h>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/lion.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using testing::TempFolder;
using testing::tiny_loader;
using testing::tiny_options;
using testing::UnsavedLion;

TrainerOptions options_with_unsaved() {
  TrainerOptions options = tiny_options();
  options.optimizers = std::make_shared<UnsavedLion>(parameters(options.model->module()));
  return options;
}

TEST(TrainersOptimizer, WithoutALayoutIsRefusedBeforeTrainingWhenItIsToBeSaved) {
  const TempFolder folder;
  TrainerOptions options = options_with_unsaved();
  options.save_folder = folder / "run";
  EXPECT_THAT(message_of<UnsupportedError>([&] { Trainer trainer(std::move(options)); }),
              HasSubstr("the optimizer UnsavedLion cannot be saved"));
  TrainerOptions with_callback = options_with_unsaved();
  with_callback.callbacks = {CheckpointSaver({.folder = folder / "run"})};
  EXPECT_THROW(Trainer(std::move(with_callback)), UnsupportedError);
}

TEST(TrainersOptimizer, WithoutALayoutTrainsWithAWarningAndSavesWeights) {
  const TempFolder folder;
  const auto log = std::make_shared<LogRecorder>();
  TrainerOptions options = options_with_unsaved();
  options.save_folder = folder / "run";
  options.save_weights_only = true;
  options.loggers = {log};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_THAT(log->messages, Contains(HasSubstr("only weights can be saved")));
  trainer.save_checkpoint(folder / "weights.pt", /*weights_only=*/true);
}

TEST(TrainersOptimizer, OverTensorsThatAreNotTheModelsIsRefusedWithTheirShapes) {
  TrainerOptions options = tiny_options();
  const torch::nn::Linear other(torch::nn::LinearOptions(4, 8));
  options.optimizers =
      std::make_shared<torch::optim::SGD>(other->parameters(), torch::optim::SGDOptions(0.1));
  EXPECT_THAT(message_of<UsageError>([&] { Trainer trainer(std::move(options)); }),
              AllOf(HasSubstr("parameter 0 of the optimizer's group 0, of shape [8, 4], is none of "
                              "the model's parameters"),
                    HasSubstr("of that shape it has \"first.weight\""),
                    HasSubstr("cairn::parameters(module)")));
}

TEST(TrainersOptimizer, MaximizeOfAFileIsRefusedNamingTheFile) {
  const TempFolder folder;
  TrainerOptions first = tiny_options();
  first.optimizers = AdamW();
  const std::string path = Trainer(std::move(first)).save_checkpoint(folder / "saved.pt");
  Value file = load(path);
  file.mutable_dict()["state"]
      .mutable_dict()["optimizers"]
      .mutable_dict()["AdamW"]
      .mutable_dict()["param_groups"]
      .mutable_list()[0]
      .mutable_dict()
      .set("maximize", true);
  save(file, folder / "maximize.pt");
  TrainerOptions options = tiny_options();
  options.optimizers = AdamW();
  options.load_path = folder / "maximize.pt";
  EXPECT_THAT(message_of<UnsupportedError>([&] { Trainer trainer(std::move(options)); }),
              AllOf(HasSubstr(folder / "maximize.pt"), HasSubstr("maximize=True")));
}

// --- LBFGS ---------------------------------------------------------------------------------------

TrainerOptions options_with_lbfgs() {
  TrainerOptions options = tiny_options({.metrics = true});
  options.train_dataloader = tiny_loader(6, {.batch_size = 6});
  options.max_duration = "4ba";
  options.optimizers = LBFGS({.lr = 0.5, .max_iter = 3});
  return options;
}

TEST(ClosureOfLBFGS, EvaluatesTheBatchAsOftenAsItLikesAsLibtorchWould) {
  const auto events = std::make_shared<testing::EventRecorder>();
  TrainerOptions options = options_with_lbfgs();
  options.callbacks = {events};
  Trainer trainer(std::move(options));

  testing::TinyModel alone({.metrics = true});
  const auto lbfgs = LBFGS({.lr = 0.5, .max_iter = 3}).create(parameters(alone.module()));
  trainer.fit();

  const DataSpec data{.dataloader = tiny_loader(6, {.batch_size = 6})};
  int evaluations = 0;
  double last = 0;
  for (int epoch = 0; epoch < 4; ++epoch) {
    data.dataloader->start_epoch(epoch, 0);
    const Batch batch = data.dataloader->next().value();
    lbfgs->step([&] {
      ++evaluations;
      lbfgs->zero_grad();
      at::Tensor loss = alone.loss(alone.forward(batch), batch)[0];
      loss.backward();
      last = loss.item<double>();
      return loss;
    });
  }
  EXPECT_GT(evaluations, 8);
  EXPECT_EQ(events->count("before_train_batch"), evaluations);
  EXPECT_EQ(events->count("after_train_batch"), evaluations);
  EXPECT_EQ(events->count("batch_end"), 4);
  EXPECT_TRUE(at::equal(testing::weights_of(*trainer.state().model), testing::weights_of(alone)));
  EXPECT_EQ(trainer.state().total_loss_dict.at("loss/train/total").as_float(), last);
}

TEST(ClosureOfLBFGS, TransformsEachEvaluationsBatchOnce) {
  TrainerOptions options = options_with_lbfgs();
  DataSpec data{.dataloader = tiny_loader(6, {.batch_size = 6})};
  int calls = 0;
  data.microbatch_transforms = [&](Batch batch) {
    ++calls;
    return batch.map([](const at::Tensor& t) { return t.is_floating_point() ? t * 2 : t; });
  };
  const auto seen = std::make_shared<std::vector<double>>();
  options.train_dataloader = data;
  options.callbacks = {testing::CallAt(Event::kBeforeForward, [seen](State& state) {
    seen->push_back(state.batch[0].abs().max().item<double>());
  })};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_EQ(static_cast<std::size_t>(calls), seen->size());
  EXPECT_THAT(*seen, ::testing::Each(seen->front()));
}

TEST(ClosureOfLBFGS, MicrobatchesGiveTheWholeBatchsLoss) {
  Trainer whole(options_with_lbfgs());
  whole.fit();
  TrainerOptions options = options_with_lbfgs();
  options.device_train_microbatch_size = 2;
  Trainer parts(std::move(options));
  parts.fit();
  EXPECT_TRUE(at::allclose(testing::weights_of(*parts.state().model),
                           testing::weights_of(*whole.state().model), 1e-8, 1e-10));
}

}  // namespace
}  // namespace cairn
