// Follows the advice in the error messages of loads, word for word.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <regex>

#include "cairn/algorithms/ema.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using ::testing::Not;
using testing::tiny_loader;
using testing::tiny_options;

// The patterns in `load_ignore_keys = {"a", "b"}` in a message.
std::vector<std::string> advised_keys(const std::string& message) {
  std::smatch list;
  std::vector<std::string> keys;
  if (!std::regex_search(message, list, std::regex(R"(load_ignore_keys = \{([^}]*)\})"))) return {};
  const std::string inside = list[1];
  const std::regex quoted("\"([^\"]*)\"");
  for (std::sregex_iterator it(inside.begin(), inside.end(), quoted), end; it != end; ++it)
    keys.push_back((*it)[1]);
  return keys;
}

std::string advised_path(const std::string& message) {
  std::smatch path;
  return std::regex_search(message, path, std::regex(R"(load_path = "([^"]*)\")")) ? path.str(1)
                                                                                   : "";
}

struct LoadAdvice : ::testing::Test {
  // A run that is stopped inside its first epoch of 5 batches.
  TrainerOptions options() {
    TrainerOptions made = tiny_options();
    made.train_dataloader = tiny_loader(10, {.batch_size = 2, .shuffle = true});
    made.optimizers = AdamW({.lr = 0.01});
    made.run_name = "run";
    made.loggers = log;
    made.save_folder = folder / "ckpt";
    made.save_interval = "1ba";
    made.autoresume = true;
    return made;
  }
  void stop_after(std::int64_t batches) {
    TrainerOptions made = options();
    made.max_duration = Time::batches(batches);
    Trainer trainer(std::move(made));
    trainer.fit();
  }

  testing::TempFolder folder;
  std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
};

// --- The data loader -----------------------------------------------------------------------------

TEST_F(LoadAdvice, OfAutoresumeInsideAnEpochLetsAnotherLoaderGoOn) {
  stop_after(3);
  TrainerOptions made = options();
  made.train_dataloader = tiny_loader(10, {.batch_size = 5, .shuffle = true});
  made.load_ignore_keys = {"state/dataset_state*"};  // These keys apply only to load_path.
  std::string message;
  {
    Trainer refused(made);
    message = message_of<MismatchError>([&] { refused.fit(); });
  }
  EXPECT_THAT(message, AllOf(HasSubstr("batch_size: 2 in the checkpoint, 5 here"),
                             HasSubstr("start once with autoresume = false, load_path = ")));
  EXPECT_THAT(log->messages,
              Contains("load_ignore_keys (of load_path) not used: autoresume takes the run's own "
                       "checkpoint whole"));
  made.model = options().model;
  made.autoresume = false;
  made.load_path = advised_path(message);
  made.load_ignore_keys = advised_keys(message);
  made.max_duration = "4ba";
  {
    Trainer once(made);
    EXPECT_EQ(once.state().timestamp.batch, 3);
    EXPECT_NO_THROW(once.fit());
  }
  // Starts again with the same options as the first time.
  made.model = options().model;
  made.autoresume = true;
  made.load_path = std::nullopt;
  made.load_ignore_keys = {};
  made.max_duration = "2ep";
  log->messages.clear();
  Trainer later(std::move(made));
  EXPECT_EQ(later.state().timestamp.batch, 4);
  EXPECT_NO_THROW(later.fit());
  EXPECT_EQ(later.state().timestamp.epoch, 2);
  EXPECT_THAT(log->messages, Not(Contains(HasSubstr("not used"))));
}

TEST_F(LoadAdvice, OfLoadPathInsideAnEpochLetsAnotherLoaderGoOn) {
  stop_after(3);
  TrainerOptions made = options();
  made.autoresume = false;
  made.save_folder = std::nullopt;
  made.load_path = folder / "ckpt/ep0-ba3-rank0.pt";
  made.train_dataloader = tiny_loader(10, {.batch_size = 5, .shuffle = true});
  Trainer refused(made);
  const std::string message = message_of<MismatchError>([&] { refused.fit(); });
  EXPECT_THAT(message, Not(HasSubstr("autoresume")));
  refused.close();
  made.model = options().model;
  made.load_ignore_keys = advised_keys(message);
  Trainer once(std::move(made));
  EXPECT_NO_THROW(once.fit());
}

TEST_F(LoadAdvice, NamesOptionsOfLoadPathThatHaveNoEffectWithoutIt) {
  TrainerOptions made = options();
  made.load_weights_only = true;
  made.load_ignore_keys = "state/optimizers*";
  made.load_exclude_algorithms = {"EMA"};
  const Trainer fresh(std::move(made));
  EXPECT_THAT(log->messages, Contains("load_weights_only, load_ignore_keys, "
                                      "load_exclude_algorithms (of load_path) not used: there is "
                                      "no load_path"));
}

// --- Another model -------------------------------------------------------------------------------

// Two layers. The second one has `classes` outputs.
TrainerOptions head_options(std::int64_t classes) {
  TrainerOptions made = tiny_options();
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::Linear(8, classes));
  net->to(torch::kFloat64);
  made.model = classifier(net, {.num_classes = classes});
  made.optimizers = AdamW({.lr = 0.01});
  return made;
}

TEST_F(LoadAdvice, OfASizeMismatchPassesOverTheWeightsThatDoNotFit) {
  Trainer pretrained(head_options(5));
  pretrained.fit();
  const std::string path = pretrained.save_checkpoint(folder / "pretrained.pt");
  for (const bool weights_only : {true, false}) {
    for (const bool strict : {true, false}) {
      TrainerOptions made = head_options(3);
      made.load_path = path;
      made.load_weights_only = weights_only;
      made.load_strict_model_weights = strict;
      made.max_duration = "4ep";
      const std::string message = message_of<MismatchError>([&] { Trainer refused(made); });
      EXPECT_THAT(message, HasSubstr("size mismatch for module.1.weight: "));
      const auto keys = advised_keys(message);
      if (weights_only) {
        EXPECT_THAT(keys, ElementsAre("state/model/module.1.weight", "state/model/module.1.bias"));
      } else {
        EXPECT_THAT(keys, ElementsAre("state/model/module.1.weight", "state/model/module.1.bias",
                                      "state/optimizers*"));
      }
      made.model = head_options(3).model;
      made.load_ignore_keys = keys;
      Trainer tuned(std::move(made));
      EXPECT_TRUE(torch::equal(tuned.state().model->module().parameters()[0],
                               pretrained.state().model->module().parameters()[0]));
      EXPECT_NO_THROW(tuned.fit());
    }
  }
}

TEST_F(LoadAdvice, OfASizeMismatchMatchesNoOtherName) {
  const auto net = [](std::int64_t size) {
    auto made = std::make_shared<torch::nn::Module>("Net");
    made->register_parameter("a[0]*", torch::ones({size}));
    made->register_parameter("a[0]b", torch::ones({2}));
    return made;
  };
  const auto state = [&](State& of, std::int64_t size) {
    of.model = make_classifier(net(size), [](const at::Tensor& x) { return x; }, {});
  };
  State saved;
  state(saved, 3);
  const std::string path = save_checkpoint(saved, folder / "a.pt", {.weights_only = true});
  State other;
  state(other, 4);
  Logger logger(other);
  const std::string message = message_of<MismatchError>(
      [&] { load_checkpoint(path, other, logger, {.load_weights_only = true}); });
  EXPECT_THAT(advised_keys(message), ElementsAre("state/model/module.a[[]0][*]"));
  EXPECT_NO_THROW(load_checkpoint(
      path, other, logger, {.load_weights_only = true, .ignore_keys = advised_keys(message)}));
}

TEST_F(LoadAdvice, OfAutoresumeWithAnotherModelCanBeFollowed) {
  stop_after(3);
  TrainerOptions made = options();
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::Linear(8, 3));
  net->to(torch::kFloat64);
  made.model = classifier(net, {.num_classes = 3});
  made.optimizers = SGD({.lr = 0.01});
  const std::string message = message_of<MismatchError>([&] { Trainer refused(made); });
  EXPECT_THAT(message, AllOf(HasSubstr("autoresume takes a checkpoint whole"),
                             HasSubstr("start once with autoresume = false")));
  EXPECT_EQ(advised_path(message), folder / "ckpt/ep0-ba3-rank0.pt");
}

// --- Algorithms ----------------------------------------------------------------------------------

TEST_F(LoadAdvice, ExcludedAlgorithmsStartAfreshAndUnknownOnesAreNamed) {
  TrainerOptions made = tiny_options();
  made.algorithms = EMA({.half_life = "2ba"});
  Trainer averaged(made);
  averaged.fit();
  made.model = tiny_options().model;
  made.algorithms = EMA({.half_life = "2ba"});
  made.load_path = averaged.save_checkpoint(folder / "ema.pt");
  made.load_exclude_algorithms = {"EMA", "MixUp"};
  made.loggers = log;
  Trainer fresh(std::move(made));
  EXPECT_THAT(
      log->messages,
      AllOf(Contains("algorithm EMA starts afresh (load_exclude_algorithms)"),
            Contains("warning: load_exclude_algorithms \"MixUp\" is not among the checkpoint's "
                     "algorithms")));
  const Value state = checkpoint_value(fresh.state(), {}).at("state").at("algorithms");
  EXPECT_EQ(state.as_items()[0].as_items()[1].at("ema_started"), Value(false));
}

}  // namespace
}  // namespace cairn
