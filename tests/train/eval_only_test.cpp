// Starts that train nothing: eval() and predict() on the weights of a checkpoint.

#include <gmock/gmock.h>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using testing::TempFolder;
using testing::tiny_loader;
using testing::tiny_options;
using testing::weights_of;

struct EvalOnly : ::testing::Test {
  EvalOnly() {
    TrainerOptions made = tiny_options({.metrics = true});
    made.optimizers = AdamW({.lr = 0.01});
    made.schedulers = CosineAnnealingScheduler();
    made.max_duration = "3ba";
    made.run_name = "run";
    made.save_folder = folder.path();
    made.eval_dataloader = tiny_loader(6);
    Trainer trainer(std::move(made));
    trainer.fit();
    trainer.close();
    weights = weights_of(*trainer.state().model).clone();
    metric = trainer.state().metric_value("eval", "MeanOutput");
  }
  // A model and data to evaluate, and nothing to train with.
  TrainerOptions options() const {
    TrainerOptions made;
    made.model = tiny_options({.metrics = true, .seed = 9}).model;
    made.eval_dataloader = tiny_loader(6);
    made.progress_bar = false;
    made.loggers = {log};
    made.handle_signals = false;
    return made;
  }
  void expect_evaluates(TrainerOptions made) const {
    Trainer trainer(std::move(made));
    EXPECT_EQ(trainer.state().timestamp.batch, 3);
    trainer.eval();
    EXPECT_TRUE(weights_of(*trainer.state().model).equal(weights));
    ASSERT_TRUE(metric.has_value());
    EXPECT_EQ(trainer.state().metric_value("eval", "MeanOutput"), metric);
    EXPECT_EQ(trainer.predict(tiny_loader(6)).size(), 3U);
    EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }), HasSubstr("it can only evaluate"));
  }

  TempFolder folder;
  std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
  at::Tensor weights;
  std::optional<double> metric;
};

TEST_F(EvalOnly, FromLoadPathWithoutOptimizerAndDuration) {
  TrainerOptions made = options();
  made.load_path = folder / "latest-rank0.pt";
  expect_evaluates(std::move(made));
}

TEST_F(EvalOnly, FromAutoresume) {
  TrainerOptions made = options();
  made.run_name = "run";
  made.save_folder = folder.path();
  made.autoresume = true;
  expect_evaluates(std::move(made));
}

}  // namespace
}  // namespace cairn
