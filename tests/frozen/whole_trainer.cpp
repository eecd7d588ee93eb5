// Frozen: users' programs, see CMakeLists.txt. Four Trainers. One has nearly all options that
// concern checkpoints, as designated initializers in their order. One has two CheckpointSavers of
// the user's own. One is interrupted. One saves in stores of the user's own.
#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cairn/cairn.h"

#include "stores.h"
#include "train_programs.h"

namespace frozen {
namespace {

cairn::DataLoader shuffled_loader(std::int64_t seed) {
  const at::Tensor x = torch::sin(torch::arange(48, torch::kFloat)).reshape({12, 4});
  return cairn::DataLoader(
      cairn::tensor_dataset({x, torch::arange(12, torch::kLong) % 3}),
      {.batch_size = 3, .shuffle = true, .num_workers = 1, .drop_last = false, .seed = seed});
}

std::shared_ptr<cairn::Model> dropout_net() {
  torch::manual_seed(4);
  const torch::nn::Sequential net(torch::nn::Linear(4, 6), torch::nn::Tanh(),
                                  torch::nn::Dropout(0.3), torch::nn::Linear(6, 3));
  return cairn::classifier(net, {.num_classes = 3});
}

cairn::TrainerOptions whole_run(const std::string& folder, const char* duration) {
  return {
      .model = dropout_net(),
      .train_dataloader = shuffled_loader(3),
      .train_dataloader_label = "train",
      .train_subset_num_batches = -1,
      .spin_dataloaders = true,
      .max_duration = duration,
      .algorithms = {cairn::GradientClipping({.clipping_type = "norm", .clipping_threshold = 0.5}),
                     cairn::LabelSmoothing({.smoothing = 0.1})},
      .optimizers = cairn::DecoupledAdamW({.lr = 0.02, .betas = {0.9, 0.95}}),
      .schedulers = cairn::CosineAnnealingWithWarmupScheduler({.t_warmup = "2ba"}),
      .step_schedulers_every_batch = true,
      .eval_dataloader = cairn::Evaluator{.label = "held_out", .dataloader = shuffled_loader(4)},
      .eval_interval = "1ep",
      .run_name = "whole",
      .progress_bar = false,
      .load_weights_only = false,
      .load_strict_model_weights = true,
      .load_progress_bar = false,
      .load_in_place = false,
      .load_ignore_keys = {"state/metadata"},
      .load_exclude_algorithms = {"LabelSmoothing"},
      .save_folder = folder + "/{run_name}/state",
      .save_filename = "ep{epoch}/ba{batch}-rank{rank}.pt.gz",
      .save_latest_filename = "latest-rank{rank}",
      .save_remote_file_name = std::nullopt,
      .save_latest_remote_file_name = std::nullopt,
      .save_overwrite = false,
      .save_interval = "3ba",
      .save_weights_only = false,
      .save_ignore_keys = {"state/integrations"},
      .save_num_checkpoints_to_keep = 2,
      .save_metrics = false,
      .autoresume = true,
      .autoresume_may_begin_anew = false,
      .device = "cpu",
      .precision = "fp32",
      .device_train_microbatch_size = 2,
      .seed = 11,
      .save_async = true,
      .save_max_pending = 2,
      .save_num_remote_checkpoints_to_keep = -1,
      .save_upload_timeout = std::chrono::seconds(60),
      .save_object_store = nullptr,
      .handle_signals = false,
      .interrupted_exit_code = 75,
  };
}

std::set<std::string> files_below(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) names.insert(entry.path().lexically_relative(folder));
  }
  return names;
}

cairn::TrainerOptions run_in_store(const std::shared_ptr<cairn::ObjectStore>& store,
                                   const std::string& folder, const char* duration) {
  cairn::TrainerOptions options;
  options.model = dropout_net();
  options.train_dataloader = shuffled_loader(3);
  options.max_duration = duration;
  options.optimizers = cairn::AdamW({.lr = 0.01});
  options.run_name = "stored";
  options.progress_bar = false;
  options.save_folder = folder;
  options.save_interval = "1ba";
  options.save_num_checkpoints_to_keep = 2;
  options.save_num_remote_checkpoints_to_keep = 2;
  options.autoresume = true;
  options.device = "cpu";
  options.seed = 11;
  options.save_object_store = store;
  options.handle_signals = false;
  return options;
}

// Checks that a run in two starts and a run in one start end with the same state.
void go_on_in_store(const std::shared_ptr<cairn::ObjectStore>& store, const std::string& folder) {
  cairn::Trainer(run_in_store(store, folder + "/straight", "6ba")).fit();
  cairn::Trainer(run_in_store(store, folder + "/run", "4ba")).fit();
  cairn::Trainer trainer(run_in_store(store, folder + "/run", "6ba"));
  check(trainer.state().timestamp.batch == 4, "it goes on from batch 4");
  trainer.fit();
  trainer.close();
  check(names_in(*store, folder + "/run") == "ep1-ba5-rank0.pt ep1-ba6-rank0.pt latest-rank0.pt",
        names_in(*store, folder + "/run"));
  const auto pointer = store->read_pointer(folder + "/run/latest-rank0.pt");
  check(pointer && pointer->target.ends_with("ep1-ba6-rank0.pt"), "the link");
  const std::vector<std::string> saved = trainer.saved_checkpoints();
  check(saved.size() == 2 && saved[1] == folder + "/run/ep1-ba6-rank0.pt", "what it saved");
  const auto found = cairn::find_latest(folder + "/run", {.store = store});
  check(found && found->timestamp.batch == 6, "the newest is found");
  const cairn::Value ended = cairn::load(folder + "/run/latest-rank0.pt", {.store = store});
  const cairn::Value expected = cairn::load(folder + "/straight/latest-rank0.pt", {.store = store});
  for (const char* path : {"state/model", "state/optimizers", "rng"})
    check(*cairn::find_path(ended, path) == *cairn::find_path(expected, path), path);
}

}  // namespace

void whole_trainer(const std::string& folder) {
  {
    cairn::Trainer straight(whole_run(folder + "/straight", "3ep"));
    straight.fit({.duration = "2ep"});
    straight.fit({.duration = "1ep"});
  }
  {
    cairn::Trainer first(whole_run(folder, "3ep"));
    first.fit({.duration = "2ep"});
  }
  cairn::Trainer trainer(whole_run(folder, "3ep"));
  check(trainer.state().timestamp.batch == 8, "it goes on");
  check(trainer.fit({.duration = "2ep"}).reason == cairn::FitResult::Reason::kAlreadyFinished,
        "the first call is done");
  check(trainer.fit({.duration = "1ep"}).reason == cairn::FitResult::Reason::kFinished, "the next");
  const std::string kept = trainer.save_checkpoint(folder + "/kept-ba{batch}.pt");
  trainer.close();

  check(files_below(folder + "/whole") == std::set<std::string>{"state/ep2/ba9-rank0.pt.gz",
                                                                "state/ep2/ba12-rank0.pt.gz",
                                                                "state/latest-rank0"},
        "what is there");
  const auto saved = trainer.all_saved_checkpoints_to_timestamp();
  check(saved.size() == 2 && saved.at(folder + "/whole/state/ep2/ba12-rank0.pt.gz") == "12ba",
        "what the Trainer says of it");
  const cairn::Value ended = cairn::load(folder + "/whole/state/latest-rank0");
  const cairn::Value expected = cairn::load(folder + "/straight/whole/state/latest-rank0");
  for (const char* path : {"state/model", "state/optimizers", "state/schedulers", "rng"})
    check(*cairn::find_path(ended, path) == *cairn::find_path(expected, path), path);
  check(cairn::find_path(ended, "state/integrations") == nullptr, "what was left out");
  check(kept == folder + "/kept-ba12.pt" &&
            cairn::load(kept).at("state").at("model") == ended.at("state").at("model"),
        "a save by hand");

  cairn::TrainerOptions tuning = whole_run(folder + "/tuned", "1ep");
  tuning.load_path = kept;
  tuning.load_weights_only = true;
  tuning.load_ignore_keys = [](cairn::Value& value) {
    value.mutable_dict()["state"].mutable_dict().erase("integrations");
  };
  cairn::Trainer tuned(std::move(tuning));
  check(tuned.state().timestamp.batch == 0, "fine-tuning begins at 0");
  check(tuned.state().model_state_dict().at("model") == ended.at("state").at("model"),
        "with the weights");
  check(tuned.predict(shuffled_loader(4)).size() == 4, "predictions");
}

// One saver saves the whole state often, the other saves weights alone every epoch.
void two_savers(const std::string& folder) {
  cairn::TrainerOptions options = whole_run(folder, "2ep");
  options.save_folder = std::nullopt;
  options.callbacks = {cairn::CheckpointSaver({.folder = folder + "/{run_name}/state",
                                               .filename = "ba{batch}-rank{rank}.pt",
                                               .save_interval = "3ba",
                                               .num_checkpoints_to_keep = 1}),
                       cairn::CheckpointSaver({.folder = folder + "/{run_name}/weights",
                                               .filename = "w{batch}-rank{rank}.pt",
                                               .latest_filename = "newest",
                                               .save_interval = "1ep",
                                               .num_checkpoints_to_keep = 2,
                                               .weights_only = true,
                                               .store = cairn::local_store()})};
  cairn::Trainer trainer(std::move(options));
  trainer.fit();
  trainer.close();
  check(files_below(folder + "/whole") ==
            std::set<std::string>{"state/ba8-rank0.pt", "state/latest-rank0.pt", "weights/newest",
                                  "weights/w4-rank0.pt", "weights/w8-rank0.pt"},
        "what is there");
  const cairn::Value state = cairn::load(folder + "/whole/state/latest-rank0.pt");
  const cairn::Value weights = cairn::load(folder + "/whole/weights/newest");
  check(weights.at("state").at("model") == state.at("state").at("model"), "the same weights");
  check(cairn::open_checkpoint(folder + "/whole/weights/newest").info().kind == "weights", "kind");
  check(trainer.saved_checkpoints().size() == 1, "the first saver's");
}

// The job scheduler sends a signal: the run saves, and its exit code asks for a restart.
void interrupted_run(const std::string& folder) {
  struct Asked final : cairn::Callback {
    void batch_start(cairn::State& state, cairn::Logger& /*logger*/) override {
      if (state.timestamp.batch == 1) std::raise(SIGTERM);
    }
  };
  cairn::TrainerOptions options = run_in_store(nullptr, folder + "/run", "1ep");
  options.save_interval = "1ep";
  options.handle_signals = true;
  options.callbacks = Asked();
  {
    cairn::Trainer trainer(std::move(options));
    const cairn::FitResult result = trainer.fit();
    check(result.reason == cairn::FitResult::Reason::kInterrupted, "it was interrupted");
    check(result.exit_code == 75, "it asks to be started again");
    check(trainer.saved_checkpoints().size() == 1, "it saved");
    trainer.save_checkpoint_to_save_folder();
  }
  cairn::Trainer again(run_in_store(nullptr, folder + "/run", "1ep"));
  check(again.state().timestamp.batch == 2, "it goes on behind the batch that was at work");
  check(again.fit().reason == cairn::FitResult::Reason::kFinished, "to the end");
}

void trainer_in_own_stores(const std::string& folder) {
  go_on_in_store(std::make_shared<DiskStore>(folder + "/disk"), "runs");
  const auto wrapped = std::make_shared<CountingStore>(cairn::local_store());
  go_on_in_store(wrapped, folder + "/wrapped");
  check(wrapped->begun() >= 12, "the wrapper was asked");
  go_on_in_store(cairn::memory_store(), "runs");
}

}  // namespace frozen
