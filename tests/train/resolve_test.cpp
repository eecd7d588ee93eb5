// resolve() reports all conflicts at once, by the options' names, and fills in the defaults.

#include <gmock/gmock.h>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/error.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/trainer.h"

#include "testing/environment_variable.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::EnvironmentVariable;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::tiny_loader;
using testing::tiny_options;

std::string conflicts_of(TrainerOptions options) {
  try {
    resolve(std::move(options));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(Resolve, AcceptsWhatIsFine) { EXPECT_EQ(conflicts_of(tiny_options()), "none"); }

TEST(Resolve, ListsEveryConflictAtOnce) {
  TrainerOptions options;
  options.max_duration = "10sec";
  options.seed = -1;
  options.console_stream = "file";
  EXPECT_THAT(conflicts_of(std::move(options)),
              AllOf(HasSubstr("model is required"), HasSubstr("max_duration"), HasSubstr("seed"),
                    HasSubstr("console_stream")));
}

struct Conflict {
  const char* option;  // The message names it.
  std::function<void(TrainerOptions&)> spoil;
};

void PrintTo(const Conflict& it, std::ostream* out) { *out << it.option; }  // NOLINT: gtest's name

class ResolveConflict : public ::testing::TestWithParam<Conflict> {};

TEST_P(ResolveConflict, NamesTheOption) {
  TrainerOptions options = tiny_options();
  GetParam().spoil(options);
  EXPECT_THAT(conflicts_of(std::move(options)), HasSubstr(GetParam().option));
}

const Conflict kConflicts[] = {
    {"train_subset_num_batches", [](auto& o) { o.train_subset_num_batches = 0; }},
    {"max_duration", [](auto& o) { o.max_duration = "0.5dur"; }},
    {"max_duration", [](auto& o) { o.max_duration = "1h"; }},
    {"scale_schedule_ratio", [](auto& o) { o.scale_schedule_ratio = 0.5; }},
    {"scale_schedule_ratio",
     [](auto& o) {
       o.scale_schedule_ratio = 0.1;
       o.schedulers = {function_scheduler([](const State&, double) { return 1.0; })};
     }},
    {"scale_schedule_ratio", [](auto& o) { o.scale_schedule_ratio = -1; }},
    {"device_train_microbatch_size", [](auto& o) { o.device_train_microbatch_size = 0; }},
    {"eval_subset_num_batches", [](auto& o) { o.eval_subset_num_batches = -2; }},
    {"eval_dataloader", [](auto& o) { o.eval_dataloader = Evaluator{.label = "x"}; }},
    {"callbacks", [](auto& o) { o.callbacks = {std::shared_ptr<Callback>()}; }},
    {"console_log_interval", [](auto& o) { o.console_log_interval = "10sp"; }},
    {"load_path", [](auto& o) { o.load_path = "nfs3://host/ep1.pt"; }},
    {"load_path", [](auto& o) { o.load_path = ""; }},
    {"load_in_place does not go with parallelism_config",
     [](auto& o) {
       o.load_in_place = true;
       o.parallelism_config = ParallelismConfig{.fsdp = FSDPConfig()};
     }},
    {"load_in_place does not go with deepspeed_config",
     [](auto& o) {
       o.load_in_place = true;
       o.deepspeed_config = Dict{{"zero_optimization", Dict{{"stage", 3}}}};
     }},
    {"save_folder", [](auto& o) { o.save_folder = "wandb://project"; }},
    {"save_num_checkpoints_to_keep", [](auto& o) { o.save_num_checkpoints_to_keep = -2; }},
    {"save_max_pending", [](auto& o) { o.save_max_pending = 0; }},
    {"interrupted_exit_code", [](auto& o) { o.interrupted_exit_code = 256; }},
    {"device", [](auto& o) { o.device = "tpu"; }},
    {"precision", [](auto& o) { o.precision = "amp_fp8"; }},
    {"precision", [](auto& o) { o.precision = "amp_fp16"; }},
    {"allow_tf32 does not go with deterministic_mode",
     [](auto& o) { o.allow_tf32 = o.deterministic_mode = true; }},
    {"cudnn_benchmark does not go with deterministic_mode",
     [](auto& o) { o.cudnn_benchmark = o.deterministic_mode = true; }},
    {"seed", [](auto& o) { o.seed = std::int64_t{1} << 32; }},
};
INSTANTIATE_TEST_SUITE_P(All, ResolveConflict, ::testing::ValuesIn(kConflicts));

// T62: without a run name, a save folder or a latest name, a run cannot be resumed.
TEST(Resolve, AutoresumeNeedsARunNameAFolderAndALatestName) {
  const EnvironmentVariable a("COMPOSER_RUN_NAME", nullptr);
  const EnvironmentVariable b("RUN_NAME", nullptr);
  TrainerOptions options = tiny_options();
  options.autoresume = true;
  options.save_latest_filename = std::nullopt;
  EXPECT_THAT(conflicts_of(options), AllOf(HasSubstr("run_name"), HasSubstr("save_folder"),
                                           HasSubstr("save_latest_filename")));
  options.run_name = "r";
  options.save_folder = "ckpt";
  options.save_latest_filename = "latest";
  EXPECT_EQ(conflicts_of(options), "none");
  options.save_weights_only = true;
  options.save_num_checkpoints_to_keep = 0;
  EXPECT_THAT(conflicts_of(options), AllOf(HasSubstr("save_weights_only"),
                                           HasSubstr("save_num_checkpoints_to_keep is 0")));
}

// T61: the folder of a CheckpointSaver in `callbacks` also counts.
TEST(Resolve, AutoresumeTakesTheFolderOfASaver) {
  TrainerOptions options = tiny_options();
  options.autoresume = true;
  options.run_name = "r";
  options.callbacks = {CheckpointSaver({.folder = "ckpt"})};
  EXPECT_EQ(conflicts_of(options), "none");
  options.callbacks = {CheckpointSaver({.folder = "ckpt", .weights_only = true})};
  EXPECT_THAT(conflicts_of(options), HasSubstr("weights_only"));
  options.callbacks.push_back(CheckpointSaver({.folder = "whole"}));
  EXPECT_EQ(conflicts_of(options), "none");
}

// T31
TEST(RunName, ComesFromTheOptionThenTheEnvironment) {
  const EnvironmentVariable run("RUN_NAME", "plain");
  EXPECT_EQ(resolve(tiny_options()).run_name, "plain");
  const EnvironmentVariable composer("COMPOSER_RUN_NAME", "composer");
  EXPECT_EQ(resolve(tiny_options()).run_name, "composer");
  TrainerOptions options = tiny_options();
  options.run_name = "mine";
  EXPECT_EQ(resolve(std::move(options)).run_name, "mine");
}

// T33: names differ even if the seeds are equal.
TEST(RunName, IsInventedAndDiffersBetweenRuns) {
  const EnvironmentVariable a("COMPOSER_RUN_NAME", nullptr);
  const EnvironmentVariable b("RUN_NAME", nullptr);
  std::set<std::string> names;
  for (int i = 0; i < 20; ++i)
    names.insert(*resolve(tiny_options()).run_name);
  EXPECT_GT(names.size(), 15U);
  EXPECT_THAT(*names.begin(), MatchesRegex("[0-9]+-[a-z]+-[a-z]+"));
}

TEST(Resolve, FillsInDefaults) {
  TrainerOptions options = tiny_options();
  options.seed.reset();
  const TrainerOptions resolved = resolve(std::move(options));
  EXPECT_EQ(resolved.device, "cpu");
  EXPECT_EQ(resolved.precision, "fp32");
  EXPECT_TRUE(resolved.run_name);
  EXPECT_GE(resolved.seed.value(), 0);
}

TEST(Resolve, NeverTakesOneOfSeveralProcessesForTheOnlyOne) {
  const EnvironmentVariable world("WORLD_SIZE", "2");
  // It is unclear which of the two processes this one is.
  EXPECT_THROW(resolve(tiny_options()), UsageError);
}

TEST(Resolve, ChecksWhatRanksDoTogether) {
  TrainerOptions options = tiny_options();
  options.ddp_sync_strategy = "sometimes";
  options.dist_timeout = 0;
  EXPECT_THAT(conflicts_of(std::move(options)),
              AllOf(HasSubstr("ddp_sync_strategy is 'sometimes'"), HasSubstr("dist_timeout")));
}

TEST(Resolve, OneProcessOfOneIsFine) {
  const EnvironmentVariable world("WORLD_SIZE", "1");
  EXPECT_EQ(conflicts_of(tiny_options()), "none");
}

}  // namespace
}  // namespace cairn
