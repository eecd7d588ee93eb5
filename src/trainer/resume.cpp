#include "trainer/resume.h"

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

namespace cairn {
namespace {

std::string position(const Timestamp& timestamp) {
  return "epoch " + std::to_string(timestamp.epoch) + ", batch " + std::to_string(timestamp.batch);
}

}  // namespace

LoadPlan load_plan(const TrainerOptions& options) {
  return {.load_path = options.load_path,
          .load_weights_only = options.load_weights_only,
          .load_strict_model_weights = options.load_strict_model_weights,
          .load_ignore_keys = options.load_ignore_keys,
          .load_exclude_algorithms = options.load_exclude_algorithms};
}

void check_autoresume(const std::optional<std::string>& run_name, const CheckpointSaver* saver) {
  std::string missing;
  if (!run_name || run_name->empty()) missing += "\n  run_name: a restarted job must know its name";
  if (saver == nullptr) {
    missing += "\n  save_folder, or a CheckpointSaver in callbacks: where its checkpoints are";
  } else if (!saver->options().latest_filename) {
    missing += "\n  save_latest_filename: the link that marks the newest checkpoint";
  }
  if (!missing.empty()) throw UsageError("autoresume needs:" + missing);
}

void apply_autoresume(LoadPlan& plan, const std::string& run_name, const CheckpointSaver& saver,
                      Logger& logger, FileSystem* files) {
  const CheckpointSaverOptions& options = saver.options();
  FindOptions find;
  find.filename = options.filename;
  find.run_name = run_name;
  find.latest_filename = options.latest_filename.value_or("");
  find.files = files;
  find.on_skip = [&logger](const std::string& path, const std::string& why) {
    logger.log_message("warning: autoresume skipped " + path + ": " + why);
  };
  const auto found = find_latest(options.folder, find);
  if (!found) {
    logger.log_message("autoresume: no checkpoint in " +
                       partial_format(options.folder, dist_variables(run_name)) +
                       (plan.load_path ? "; loading load_path" : "; starting afresh"));
    return;
  }
  logger.log_message("autoresume: going on from " + found->path + " (" +
                     position(found->timestamp) + ")");
  plan = {.load_path = found->path,
          .load_strict_model_weights = plan.load_strict_model_weights,
          .resumed = true};
}

std::optional<Value> load_planned(const LoadPlan& plan, State& state, Logger& logger) {
  if (!plan.load_path) return std::nullopt;
  // What autoresume found is a path already, and every byte of it has just been checked.
  const std::string path = plan.resumed
                               ? *plan.load_path
                               : strict_format(*plan.load_path, dist_variables(state.run_name));
  const std::string run_name = state.run_name;
  std::optional<Value> rng =
      load_checkpoint(path, state, logger,
                      {.load_weights_only = plan.load_weights_only,
                       .strict_model_weights = plan.load_strict_model_weights,
                       .ignore_keys = plan.load_ignore_keys,
                       .exclude_algorithms = plan.load_exclude_algorithms,
                       .verify = plan.resumed ? Verify::kQuick : Verify::kFull});
  state.run_name = run_name;  // a run that starts from another one's checkpoint is itself
  logger.log_message("loaded " + path +
                     (plan.load_weights_only ? " (weights)" : ": " + position(state.timestamp)));
  return rng;
}

}  // namespace cairn
