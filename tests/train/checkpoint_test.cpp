// Whole checkpoints: their content, and loads that apply everything or nothing.

#include <gmock/gmock.h>

#include <cerrno>
#include <map>
#include <stdexcept>

#include "cairn/callbacks/early_stopper.h"
#include "cairn/callbacks/speed_monitor.h"
#include "cairn/error.h"
#include "cairn/format/torch_file.h"
#include "cairn/metrics/metrics.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/rng.h"
#include "cairn/train/scaler.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/keys.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::keys;
using testing::LogRecorder;
using ::testing::Not;
using testing::TempFolder;
using testing::tiny_options;

// A callback that counts batches. Its state is the count.
class Counter final : public Callback {
 public:
  std::string name() const override { return "Counter"; }
  void batch_end(State& /*state*/, Logger& /*logger*/) override { ++count; }
  Value state_dict() const override { return Dict{{"count", count}}; }
  void load_state_dict(const Value& state) override {
    count = state.at("count").as_int();
    if (count < 0) throw MismatchError("a count is not negative");
  }
  std::int64_t count = 0;
};

struct CheckpointTest : ::testing::Test {
  static TrainerOptions options() {
    TrainerOptions made = tiny_options({.dropout = 0.2});
    made.optimizers = AdamW({.lr = 0.01});
    made.schedulers = LinearScheduler();
    made.max_duration = "3ba";
    made.run_name = "run";
    return made;
  }

  // Trains three batches and saves a checkpoint. Returns its path.
  std::string saved(TrainerOptions made, bool weights_only = false) {
    Trainer trainer(std::move(made));
    trainer.fit();
    return trainer.save_checkpoint(folder / "saved.pt", weights_only);
  }

  // Edits the state of the file at `path`, and saves it as folder/edited.pt.
  void edit(const std::string& path, const std::function<void(Dict& state)>& change) {
    Value value = load(path);
    change(value.mutable_dict()["state"].mutable_dict());
    save(value, folder / "edited.pt");
  }

  // The message of the MismatchError that loading `path` throws. The trainer's whole state must be
  // unchanged.
  static std::string refusal(Trainer& trainer, const std::string& path) {
    const Value before = load_back(trainer);
    try {
      load_checkpoint(path, trainer.state(), trainer.logger());
    } catch (const MismatchError& e) {
      EXPECT_EQ(load_back(trainer), before) << "something was applied";
      return e.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  // Saves a checkpoint and loads it: a deep copy of everything that a checkpoint holds now.
  static Value load_back(Trainer& trainer) {
    const TempFolder here;
    return load(trainer.save_checkpoint(here / "now.pt"));
  }

  TempFolder folder;
};

TEST_F(CheckpointTest, HoldsComposersEntriesInComposersOrder) {
  const Value value = load(saved(options()));
  EXPECT_THAT(keys(value), ElementsAre("state", "rng"));
  EXPECT_THAT(keys(value.at("state")),
              ElementsAre("model", "optimizers", "schedulers", "algorithms", "callbacks", "scaler",
                          "timestamp", "rank_zero_seed", "run_name", "dataset_state",
                          "integrations", "metadata"));
  EXPECT_THAT(keys(*find_path(value, "state/optimizers")), ElementsAre("AdamW"));
  EXPECT_THAT(keys(*find_path(value, "state/schedulers")), ElementsAre("LambdaLR"));
  EXPECT_EQ(find_path(value, "state/timestamp/Timestamp/batch")->as_int(), 3);
  EXPECT_EQ(find_path(value, "state/run_name")->as_str(), "run");
  EXPECT_THAT(keys(*find_path(value, "rng/0")), ElementsAre("python", "numpy", "torch"));
}

TEST_F(CheckpointTest, ScalerHasFiveEntriesAlsoWhenItIsDisabled) {
  const Value value = load(saved(options()));
  EXPECT_THAT(keys(*find_path(value, "state/scaler/ClosureGradScaler")),
              ElementsAre("scale", "growth_factor", "backoff_factor", "growth_interval",
                          "_growth_tracker"));
}

TEST_F(CheckpointTest, MetadataHasComposersKeys) {
  const Value metadata = load(saved(options())).at("state").at("metadata");
  EXPECT_THAT(keys(metadata), ElementsAre("composer_env_info", "torch_version", "device",
                                          "precision", "world_size", "device_train_microbatch_size",
                                          "train_dataloader_batch_size", "trainer_options"));
  EXPECT_THAT(
      keys(metadata.at("composer_env_info")),
      ElementsAre("composer_version", "composer_commit_hash", "cpu_model", "cpu_count", "num_nodes",
                  "gpu_model", "num_gpus_per_node", "num_gpus", "cuda_device_count"));
  EXPECT_EQ(metadata.at("train_dataloader_batch_size"), Value(2));
}

// T17, T18
TEST_F(CheckpointTest, WeightsOnlyHoldsModelIntegrationsAndMetadata) {
  const Value value = load(saved(options(), /*weights_only=*/true));
  EXPECT_THAT(keys(value), ElementsAre("state"));
  EXPECT_THAT(keys(value.at("state")), ElementsAre("model", "integrations", "metadata"));
}

// T8
TEST_F(CheckpointTest, EverySerializedAttributeRoundTrips) {
  TrainerOptions made = options();
  auto counter = std::make_shared<Counter>();
  made.callbacks = {counter, SpeedMonitor({.window_size = 2})};
  const std::string path = saved(made);
  TrainerOptions other = options();
  other.seed = 99;
  auto loaded_counter = std::make_shared<Counter>();
  other.callbacks = {loaded_counter, SpeedMonitor({.window_size = 2})};
  Trainer trainer(std::move(other));
  const auto rng = load_checkpoint(path, trainer.state(), trainer.logger());
  ASSERT_TRUE(rng.has_value());
  restore_rng_states(*rng);
  const Value first = load(path);
  const Value second = load_back(trainer);
  for (const char* key : {"model", "optimizers", "schedulers", "algorithms", "callbacks", "scaler",
                          "timestamp", "rank_zero_seed", "run_name", "dataset_state"}) {
    EXPECT_EQ(second.at("state").at(key), first.at("state").at(key)) << key;
  }
  EXPECT_EQ(second.at("rng"), first.at("rng"));
  EXPECT_EQ(loaded_counter->count, 3);
}

TEST_F(CheckpointTest, CallbacksOfOneNameKeepTheirOwnState) {
  auto a = std::make_shared<Counter>();
  auto b = std::make_shared<Counter>();
  TrainerOptions made = options();
  made.callbacks = {a, b};
  Trainer trainer(std::move(made));
  a->count = 7;
  b->count = 8;
  const std::string path = trainer.save_checkpoint(folder / "two.pt");
  EXPECT_THAT(keys(*find_path(load(path), "state/callbacks")), ElementsAre("Counter", "Counter-1"));
  a->count = b->count = 0;
  load_checkpoint(path, trainer.state(), trainer.logger());
  EXPECT_EQ(a->count, 7);
  EXPECT_EQ(b->count, 8);
}

// T38
TEST_F(CheckpointTest, WeightsOnlyLoadTouchesNothingElse) {
  TrainerOptions made = options();
  made.callbacks = Counter();
  const std::string path = saved(made);
  auto counter = std::make_shared<Counter>();
  TrainerOptions other = options();
  other.callbacks = {counter};
  Trainer trainer(std::move(other));
  const auto rng =
      load_checkpoint(path, trainer.state(), trainer.logger(), {.load_weights_only = true});
  EXPECT_FALSE(rng.has_value());
  EXPECT_EQ(counter->count, 0);
  EXPECT_EQ(trainer.state().timestamp, Timestamp());
  EXPECT_EQ(state_dict(trainer.state().model->module()), load(path).at("state").at("model"));
}

// T39, T43, T59
TEST_F(CheckpointTest, MetricsAreSavedWhenAskedAndComeBack) {
  TrainerOptions made = options();
  made.model = classifier(torch::nn::Linear(4, 3), {.num_classes = 3});
  made.train_dataloader = testing::tiny_loader(10);
  const auto to_float = [](Batch batch) {
    batch[0] = batch[0].to(at::kFloat);
    return batch;
  };
  made.train_dataloader.batch_transforms = to_float;
  made.eval_dataloader = Evaluator{.label = "eval", .dataloader = made.train_dataloader};
  made.eval_interval = "1ba";
  made.save_metrics = true;
  Trainer trainer(made);
  trainer.fit();
  const std::string path = trainer.save_checkpoint(folder / "metrics.pt");
  const Value value = load(path).at("state");
  ASSERT_NE(value.find("train_metrics"), nullptr);
  ASSERT_NE(find_path(value, "eval_metrics/eval/MulticlassAccuracy/state_dict"), nullptr);
  const auto before = trainer.state().metric_value("eval", "MulticlassAccuracy");
  ASSERT_TRUE(before.has_value());

  made.model = classifier(torch::nn::Linear(4, 3), {.num_classes = 3});
  Trainer resumed(made);
  load_checkpoint(path, resumed.state(), resumed.logger());
  EXPECT_EQ(resumed.state().metric_value("eval", "MulticlassAccuracy"), before);
  const Metric& was = *trainer.state().eval_metrics.front().second.front().second;
  const Metric& is = *resumed.state().eval_metrics.front().second.front().second;
  EXPECT_EQ(is.state_dict(), was.state_dict());
  EXPECT_EQ(load(saved(options())).at("state").find("train_metrics"), nullptr);
}

// T23, T40: the four patterns, and the parts that each pattern leaves unchanged.
TEST_F(CheckpointTest, IgnoredPartsAreNotRestored) {
  TrainerOptions made = options();
  made.callbacks = Counter();
  const std::string path = saved(made);
  const Value file = load(path);
  struct Case {
    std::string pattern;
    bool weights, callbacks, rng;  // Whether these parts are restored.
  };
  for (const Case& each :
       {Case{"*", false, false, false}, Case{"state/model/*", false, true, true},
        Case{"state/callbacks/*", true, false, true}, Case{"rng", true, true, false}}) {
    auto counter = std::make_shared<Counter>();
    TrainerOptions other = options();
    other.callbacks = {counter};
    Trainer trainer(std::move(other));
    const auto rng =
        load_checkpoint(path, trainer.state(), trainer.logger(),
                        {.strict_model_weights = false, .ignore_keys = IgnoreKeys({each.pattern})});
    const bool same_weights =
        state_dict(trainer.state().model->module()) == file.at("state").at("model");
    EXPECT_EQ(same_weights, each.weights) << each.pattern;
    EXPECT_EQ(counter->count == 3, each.callbacks) << each.pattern;
    EXPECT_EQ(rng.has_value(), each.rng) << each.pattern;
  }
}

TEST_F(CheckpointTest, PatternThatMatchesNothingIsAWarning) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = options();
  made.load_path = saved(options());
  made.load_ignore_keys = {"state/modle/*"};
  made.loggers = {log};
  const Trainer trainer(std::move(made));
  EXPECT_THAT(log->messages, Contains(HasSubstr("state/modle/*")));
}

TEST_F(CheckpointTest, EverythingThatDoesNotFitIsListedAndNothingIsApplied) {
  TrainerOptions made = options();
  made.callbacks = Counter();
  const std::string path = saved(made);
  edit(path, [](Dict& state) {
    state["model"].mutable_dict().erase("first.bias");
    state["model"].mutable_dict()["second.weight"] = view_of(torch::zeros({2, 2}));
    state["callbacks"].mutable_dict()["Counter"].mutable_dict()["count"] = -1;
    state["schedulers"].mutable_dict()["LambdaLR"] = Dict();
    state["timestamp"].mutable_dict()["Timestamp"].mutable_dict()["batch"] = "three";
  });
  Trainer trainer(made);
  const std::string message = refusal(trainer, folder / "edited.pt");
  EXPECT_THAT(message, HasSubstr("first.bias"));
  EXPECT_THAT(message, HasSubstr("second.weight"));
  EXPECT_THAT(message, HasSubstr("callback Counter: a count is not negative"));
  EXPECT_THAT(message, HasSubstr("scheduler LambdaLR"));
  EXPECT_THAT(message, HasSubstr("batch"));
  EXPECT_THAT(message, HasSubstr("nothing was changed"));
}

TEST_F(CheckpointTest, StateThatWasTriedIsGivenBack) {
  TrainerOptions made = options();
  auto counter = std::make_shared<Counter>();
  made.callbacks = {counter};
  const std::string path = saved(options());
  edit(path, [](Dict& state) {
    state["callbacks"].mutable_dict()["Counter"] = Dict{{"count", 5}};  // Fits.
    state["model"].mutable_dict().erase("first.bias");                  // Does not fit.
  });
  Trainer trainer(std::move(made));
  counter->count = 41;
  refusal(trainer, folder / "edited.pt");
  EXPECT_EQ(counter->count, 41);
}

// A callback that accepts no state, not even its own.
class Refusing final : public Callback {
 public:
  std::string name() const override { return "Refusing"; }
  Value state_dict() const override { return Dict{{"count", 1}}; }
  void load_state_dict(const Value& /*state*/) override { throw std::runtime_error("not me"); }
};

TEST_F(CheckpointTest, OneThatRefusesItsOwnStateKeepsNoOtherFromItsOwn) {
  TrainerOptions made = options();
  auto before = std::make_shared<Counter>();
  made.callbacks = {before, Refusing()};
  const std::string path = saved(made);
  TrainerOptions again = options();
  again.callbacks = {before, Refusing()};
  Trainer trainer(std::move(again));
  before->count = 41;
  const std::string message = refusal(trainer, path);
  EXPECT_EQ(before->count, 41);
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_THAT(message, HasSubstr("\n  callback Refusing: not me"));
  EXPECT_THAT(message, HasSubstr("except objects that refused their own state (callback Refusing"));
}

// A destination that cannot write its line because the disk is full.
class FullDisk final : public LoggerDestination {
 public:
  std::string name() const override { return "FullDisk"; }
  void log_message(const std::string& message) override {
    if (message.find("is not in the checkpoint") != std::string::npos && is_full) {
      throw StorageError("no space left", ENOSPC, true);
    }
  }
  bool is_full = false;
};

TEST_F(CheckpointTest, AnErrorOfSomebodyElseInTheMiddleGivesEverythingBack) {
  TrainerOptions made = options();
  made.callbacks = Counter();
  const std::string path = saved(made);
  TrainerOptions other = options();
  auto counter = std::make_shared<Counter>();
  auto full = std::make_shared<FullDisk>();
  // The file does not have the second callback's state.
  other.callbacks = {counter, SpeedMonitor({.window_size = 2})};
  other.loggers = {full};
  Trainer trainer(std::move(other));
  counter->count = 41;
  const Value before = load_back(trainer);
  full->is_full = true;
  try {
    load_checkpoint(path, trainer.state(), trainer.logger());
    FAIL() << "no error";
  } catch (const StorageError& e) {  // The error keeps its class.
    EXPECT_THAT(e.what(), HasSubstr(path + ", nothing was changed: no space left"));
  }
  EXPECT_EQ(load_back(trainer), before);
  EXPECT_EQ(counter->count, 41);
}

TEST_F(CheckpointTest, OneWeightThatCannotBeWrittenIsFoundBeforeTheOthersAre) {
  TrainerOptions made = options();
  made.model->module().register_buffer("ones", torch::zeros({3}));
  const std::string path = saved(made);
  TrainerOptions other = options();
  other.model->module().register_buffer("ones", torch::zeros({1}).expand({3}));
  Trainer trainer(std::move(other));
  EXPECT_THAT(refusal(trainer, path), HasSubstr("ones of the model cannot be written"));
}

TEST_F(CheckpointTest, AnotherOptimizerIsRefusedByName) {
  const std::string path = saved(options());
  TrainerOptions other = options();
  other.optimizers = SGD({.lr = 0.1});
  Trainer trainer(std::move(other));
  EXPECT_THAT(refusal(trainer, path),
              HasSubstr("optimizer: the checkpoint has AdamW, this run SGD"));
}

TEST_F(CheckpointTest, MalformedRandomStatesAreFoundBeforeAnythingIsApplied) {
  Value value = load(saved(options()));
  value.mutable_dict()["rng"].mutable_list()[0].mutable_dict()["python"] = "seed";
  save(value, folder / "edited.pt");
  Trainer trainer(options());
  EXPECT_THAT(refusal(trainer, folder / "edited.pt"), HasSubstr("rng/0/python"));
}

// Composer ignores its strict flag for the model of a full checkpoint. Here the flag counts.
TEST_F(CheckpointTest, FullLoadIsStrictUnlessToldOtherwise) {
  edit(saved(options()), [](Dict& state) { state["model"].mutable_dict().erase("first.bias"); });
  Trainer trainer(options());
  EXPECT_THAT(refusal(trainer, folder / "edited.pt"), HasSubstr("missing names: \"first.bias\""));
  EXPECT_NO_THROW(load_checkpoint(folder / "edited.pt", trainer.state(), trainer.logger(),
                                  {.strict_model_weights = false}));
}

TEST_F(CheckpointTest, WeightsFileIntoAFullLoadIsAWarning) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = options();
  made.load_path = saved(options(), /*weights_only=*/true);
  made.loggers = {log};
  Trainer trainer(std::move(made));
  EXPECT_THAT(log->messages, Contains(HasSubstr("holds only weights")));
  EXPECT_EQ(state_dict(trainer.state().model->module()),
            load(folder / "saved.pt").at("state").at("model"));
}

TEST_F(CheckpointTest, AlgorithmsThatAreNotLiveAreNamedOnceUnlessExcluded) {
  edit(saved(options()), [](Dict& state) {
    state["algorithms"] = List{Tuple{{"MixUp", Dict{{"repr", "MixUp(alpha=0.2)"}}}}};
  });
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = options();
  made.loggers = {log};
  made.load_path = folder / "edited.pt";
  { const Trainer loud(made); }
  EXPECT_THAT(log->messages, Contains(HasSubstr("MixUp")));
  log->messages.clear();
  made.model = options().model;
  made.load_exclude_algorithms = {"MixUp"};
  const Trainer silent(std::move(made));
  EXPECT_THAT(log->messages, Not(Contains(HasSubstr("MixUp"))));
}

// T55
TEST_F(CheckpointTest, RunNameIsFilledIntoLoadPath) {
  const std::string path = saved(options());
  save(load(path), folder / "run-of-mine.pt");
  TrainerOptions made = options();
  made.run_name = "mine";
  made.load_path = folder / "run-of-{run_name}.pt";
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.state().timestamp.batch, 3);
  EXPECT_EQ(trainer.state().run_name, "mine");
}

// T57: Composer has a callback for this.
TEST_F(CheckpointTest, ACallbackMayLoadBeforeTheTrainerDoes) {
  const std::string weights = saved(options(), /*weights_only=*/true);
  const Value model = load(weights).at("state").at("model");
  const auto load_weights = [weights](State& state) {
    Logger quiet(state);
    load_checkpoint(weights, state, quiet, {.load_weights_only = true});
  };
  TrainerOptions made = options();
  made.callbacks = testing::CallAt(Event::kBeforeLoad, load_weights);
  Trainer without_path(made);
  EXPECT_EQ(state_dict(without_path.state().model->module()), model);
  EXPECT_EQ(without_path.state().timestamp.batch, 0);

  // The Trainer's own load comes afterwards, and wins.
  edit(saved(options()),
       [](Dict& state) { state["model"] = state_dict(testing::TinyModel({.seed = 77}).module()); });
  TrainerOptions both = options();
  both.callbacks = testing::CallAt(Event::kBeforeLoad, load_weights);
  both.load_path = folder / "edited.pt";
  Trainer with_path(std::move(both));
  EXPECT_EQ(state_dict(with_path.state().model->module()),
            load(folder / "edited.pt").at("state").at("model"));
  EXPECT_EQ(with_path.state().timestamp.batch, 3);
}

TEST_F(CheckpointTest, AQuickLoadReadsNoByteForItsChecksumNeitherBeforeNorAfter) {
  const std::string path = saved(options());
  std::string bytes = testing::read_file(path);
  const TorchFile file(source_of({as_bytes(bytes), nullptr}, path));
  bytes[file.find_record("data/0")->offset] ^= 1;
  testing::write_file(folder / "flipped.pt", bytes);
  Trainer trainer(options());
  EXPECT_THROW(load_checkpoint(folder / "flipped.pt", trainer.state(), trainer.logger()),
               CorruptError);
  EXPECT_NO_THROW(load_checkpoint(folder / "flipped.pt", trainer.state(), trainer.logger(),
                                  {.verify = Verify::kQuick}));
}

// T36
TEST_F(CheckpointTest, UrisAreRefusedByScheme) {
  for (const std::string scheme : {"gcs", "ftp", "hdfs"}) {
    TrainerOptions made = options();
    made.load_path = scheme + "://host/checkpoint.pt";
    try {
      const Trainer trainer(std::move(made));
      FAIL() << "no error";
    } catch (const UsageError& e) {
      EXPECT_THAT(e.what(), HasSubstr(scheme + "://"));
    }
  }
}

TEST_F(CheckpointTest, MissingFileIsNotFound) {
  TrainerOptions made = options();
  made.load_path = folder / "nothing.pt";
  EXPECT_THROW(Trainer(std::move(made)), NotFoundError);
}

TEST_F(CheckpointTest, FileThatIsNoCheckpointSaysWhatReadsIt) {
  save(state_dict(options().model->module()), folder / "weights.pt");
  TrainerOptions made = options();
  made.load_path = folder / "weights.pt";
  try {
    const Trainer trainer(std::move(made));
    FAIL() << "no error";
  } catch (const MismatchError& e) {
    EXPECT_THAT(e.what(), HasSubstr("load_state_dict()"));
  }
}

TEST_F(CheckpointTest, OldLayoutsAreBroughtToThePresentOne) {
  edit(saved(options()), [](Dict& state) {
    Dict wrapped = Dict::ordered();
    for (const auto& [key, value] : state.at("model").as_dict()) {
      wrapped.set("module." + key.as_str(), value);
    }
    Dict old = {{"_model", wrapped}, {"_is_model_ddp_wrapped", true}};
    for (const auto& [key, value] : state) {
      if (key != Value("model")) old.set("_" + key.as_str(), value);
    }
    old["_algorithms"] = Dict();
    Dict& time = old["_timestamp"].mutable_dict()["Timestamp"].mutable_dict();
    for (const char* key : {"iteration", "epoch_in_iteration", "token_in_iteration"}) {
      time.erase(key);
    }
    time["epoch"] = 2;
    state = old;
  });
  Trainer trainer(options());
  load_checkpoint(folder / "edited.pt", trainer.state(), trainer.logger());
  EXPECT_EQ(state_dict(trainer.state().model->module()),
            load(folder / "saved.pt").at("state").at("model"));
  EXPECT_EQ(trainer.state().timestamp.epoch_in_iteration, 2);
}

TEST_F(CheckpointTest, SaveCheckpointNamesTheFileByRunAndTime) {
  Trainer trainer(options());
  trainer.fit();
  EXPECT_EQ(save_checkpoint(trainer.state(), folder / "{run_name}-ba{batch:03d}"),
            folder / "run-ba003");
  EXPECT_THROW(save_checkpoint(trainer.state(), folder / "{bach}"), UsageError);
}

TEST_F(CheckpointTest, EarlyStoppersBestValueSurvives) {
  EarlyStopper stopper({.monitor = "Loss", .dataloader_label = "eval"});
  stopper.load_state_dict(Dict{{"best", 0.25}, {"best_occurred", Timestamp().state_dict()}});
  EXPECT_EQ(stopper.state_dict().at("best"), Value(0.25));
  EXPECT_EQ(stopper.state_dict().at("stopped_fit"), Value(0));
  stopper.load_state_dict(
      Dict{{"best", 0.25}, {"best_occurred", Timestamp().state_dict()}, {"stopped", true}});
  EXPECT_EQ(stopper.state_dict().at("stopped_fit"), Value(1)) << "of an older cairn's file";
  stopper.load_state_dict(Dict());  // Composer's state.
  EXPECT_TRUE(stopper.state_dict().at("best").is_none());
}

}  // namespace
}  // namespace cairn
