// resolve(): every check of TrainerOptions that needs no data, and the defaults. Also the checks of
// FitOptions that need no data.

#include <stdlib.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/options.h"
#include "cairn/train/rng.h"

#include "io/uri.h"
#include "saving/best_saves.h"
#include "saving/check_savers.h"
#include "storage/place.h"
#include "storage/remote/source.h"
#include "train/engine/run_name.h"
#include "train/loop/eval_loop.h"
#include "train/loop/microbatches.h"
#include "train/loop/precision.h"
#include "train/trainer/deepspeed_config.h"
#include "train/trainer/ranks.h"
#include "train/trainer/trainer_impl.h"

namespace cairn {
namespace {

class Conflicts {
 public:
  explicit Conflicts(const std::string& of) : text_(of + ":") {}
  void add(bool wrong, const std::string& sentence) {
    if (wrong) sentences_.push_back(sentence);
  }
  void add_all(const std::vector<std::string>& sentences) {
    sentences_.insert(sentences_.end(), sentences.begin(), sentences.end());
  }
  void raise() const {
    if (sentences_.empty()) return;
    std::string text = text_;
    for (const std::string& sentence : sentences_)
      text += "\n  " + sentence;
    throw UsageError(text);
  }

 private:
  std::string text_;
  std::vector<std::string> sentences_;
};

std::vector<const CheckpointSaver*> savers_of(const TrainerOptions& options) {
  std::vector<const CheckpointSaver*> savers;
  for (const Handle<Callback>& callback : options.callbacks) {
    if (const auto* saver = dynamic_cast<const CheckpointSaver*>(callback.get())) {
      savers.push_back(saver);
    }
  }
  return savers;
}

template <class T>
bool has_null(const HandleList<T>& list) {
  return std::ranges::any_of(list, [](const Handle<T>& each) { return !each; });
}

bool is_subset(std::int64_t batches) { return batches == -1 || batches > 0; }

void check_train_subset(const std::optional<std::int64_t>& subset, Conflicts& found) {
  const std::int64_t batches = subset.value_or(-1);
  found.add(!is_subset(batches), "train_subset_num_batches is " + std::to_string(batches) +
                                     "; give a positive number, or -1 for all batches");
}

void check_microbatch_size(const std::optional<MicrobatchSize>& size, bool on_cpu, bool is_sharded,
                           Conflicts& found) {
  if (!size) return;
  found.add(size->samples().value_or(1) < 1, "device_train_microbatch_size is less than 1");
  if (!size->is_auto()) return;
  const std::string problem = auto_microbatch_problem(on_cpu, is_sharded);
  found.add(!problem.empty(), problem);
}

void check_ratio(double ratio, bool has_schedulers, Conflicts& found) {
  found.add(!(ratio > 0) || !std::isfinite(ratio),
            "scale_schedule_ratio must be a positive number");
  found.add(ratio != 1.0 && !has_schedulers,
            "scale_schedule_ratio has no effect without schedulers");
}

void check_training(const TrainerOptions& options, Conflicts& found) {
  found.add(!options.model, "model is required");
  check_train_subset(options.train_subset_num_batches, found);
  if (options.max_duration) {
    const Time max = options.max_duration->time();
    const bool allowed = max.unit() != TimeUnit::kSecond && max.unit() != TimeUnit::kDuration;
    found.add(!allowed, "max_duration is " + max.to_string() +
                            "; its unit must be iter, ep, ba, sp or tok (wall-clock time and "
                            "fractions are not allowed)");
    found.add(allowed && std::isfinite(options.scale_schedule_ratio) && max.value() > 0 &&
                  (max * options.scale_schedule_ratio).value() <= 0,
              "scale_schedule_ratio scales max_duration " + max.to_string() + " down to nothing");
  }
  check_ratio(options.scale_schedule_ratio, !options.schedulers.empty(), found);
  found.add(has_null(options.algorithms), "algorithms holds a null");
  found.add(has_null(options.schedulers), "schedulers holds a null");
  found.add(has_null(options.callbacks), "callbacks holds a null");
  found.add(has_null(options.loggers), "loggers holds a null");
}

void check_evaluation(const TrainerOptions& options, Conflicts& found) {
  const std::int64_t batches = options.eval_subset_num_batches.value_or(-1);
  found.add(!is_subset(batches), "eval_subset_num_batches is " + std::to_string(batches) +
                                     "; give a positive number, or -1 for all batches");
  if (is_subset(batches)) {
    found.add_all(evaluator_conflicts(options.eval_dataloader, batches));
  }
}

void check_console(const TrainerOptions& options, Conflicts& found) {
  found.add(!options.console_stream.value(),
            "console_stream is '" + options.console_stream + "'; give stdout or stderr");
  found.add(!options.log_level.value(),
            "log_level is '" + options.log_level + "'; give info, warning or error");
  const Time* interval = options.console_log_interval.time();
  found.add(interval == nullptr ||
                (interval->unit() != TimeUnit::kEpoch && interval->unit() != TimeUnit::kBatch),
            "console_log_interval must be in epochs or batches");
}

bool is_in_store(const TrainerOptions& options) {
  return options.save_object_store != nullptr ||
         (options.save_folder && !scheme_of(*options.save_folder).empty());
}

bool has_uploads(const TrainerOptions& options) {
  return std::ranges::any_of(options.loggers, [](const auto& destination) {
    return destination && destination->can_upload_files();
  });
}

void check_remote_names(const TrainerOptions& options, Conflicts& found) {
  for (const auto& [option, name] :
       {std::pair{"save_remote_file_name", &options.save_remote_file_name},
        std::pair{"save_latest_remote_file_name", &options.save_latest_remote_file_name}}) {
    if (!*name) continue;
    found.add((*name)->empty(), std::string(option) + " is empty");
    found.add(is_in_store(options),
              std::string(option) +
                  " names what loggers upload, and save_folder is in a store already: give the "
                  "folders of that name in save_folder, and the rest in save_filename and "
                  "save_latest_filename");
    found.add(!is_in_store(options) && !has_uploads(options),
              std::string(option) + " has no effect without a logger that uploads");
  }
}

void check_keep_best(const TrainerOptions& options, Conflicts& found) {
  if (!options.save_keep_best) return;
  try {
    checked_keep_best(*options.save_keep_best, "save_keep_best");
  } catch (const UsageError& error) {
    found.add(true, error.what());
  }
  found.add(options.save_num_checkpoints_to_keep.value_or(-1) < 1 &&
                options.save_num_remote_checkpoints_to_keep.value_or(-1) < 1,
            "save_keep_best keeps checkpoints beside the newest ones, and now all are kept: set "
            "save_num_checkpoints_to_keep, or save_num_remote_checkpoints_to_keep in a store");
}

void check_checkpoints(const TrainerOptions& options, Conflicts& found) {
  if (options.load_path) {
    found.add(options.load_path->empty(), "load_path is empty");
    const std::string problem = place_problem(*options.load_path);
    found.add(!options.load_object_store && !problem.empty(), "load_path " + problem);
  }
  if (options.save_folder) {
    found.add(options.save_folder->empty(), "save_folder is empty");
    const std::string problem = writing_problem(*options.save_folder);
    found.add(!options.save_object_store && !problem.empty(), "save_folder " + problem);
  }
  const std::uint64_t chunk = options.load_chunk_size.value_or(0);
  found.add(chunk != 0 && chunk < kTailRead,
            "load_chunk_size is " + std::to_string(chunk) + " bytes, and opening a file asks for " +
                std::to_string(kTailRead) + " at once: give at least that, or 0");
  check_remote_names(options, found);
  found.add(options.save_num_checkpoints_to_keep.value_or(-1) < -1,
            "save_num_checkpoints_to_keep is less than -1 (all)");
  const int keep_remote = options.save_num_remote_checkpoints_to_keep.value_or(-1);
  found.add(keep_remote < 1 && keep_remote != -1,
            "save_num_remote_checkpoints_to_keep is neither -1 (all) nor at least 1");
  check_keep_best(options, found);
  found.add(options.save_max_pending < 1, "save_max_pending is less than 1");
  found.add(options.save_store_patience.count() < 0, "save_store_patience is less than 0");
  found.add(options.interrupted_exit_code < 0 || options.interrupted_exit_code > 255,
            "interrupted_exit_code must be in 0 to 255");
}

void check_autoresume(const TrainerOptions& options, Conflicts& found) {
  if (!options.autoresume) return;
  found.add(options.run_name ? options.run_name->empty() : !run_name_of_environment(),
            "autoresume needs run_name (or RUN_NAME in the environment): a restarted job must find "
            "its own checkpoints");
  const auto savers = savers_of(options);
  const bool uploads = has_uploads(options);
  found.add(!options.save_folder && savers.empty(),
            "autoresume needs save_folder, or a CheckpointSaver in callbacks");
  const bool saves_state =
      savers.empty() ? !options.save_weights_only && (options.save_num_checkpoints_to_keep != 0 ||
                                                      uploads || is_in_store(options))
                     : std::ranges::any_of(savers, [uploads](const CheckpointSaver* saver) {
                         return saves_whole_state(*saver, uploads);
                       });
  found.add(!saves_state,
            "autoresume needs a saver of the whole state that keeps its checkpoints: "
            "save_weights_only (weights_only of a CheckpointSaver) is set, or "
            "save_num_checkpoints_to_keep is 0 and no logger uploads");
  found.add(!options.save_latest_filename && savers.empty(),
            "autoresume needs save_latest_filename");
}

bool is_sharded(const TrainerOptions& options) {
  try {
    if (options.deepspeed_config) return deepspeed_stage(*options.deepspeed_config) > 0;
  } catch (const UsageError&) {  // check_deepspeed() says it.
    return false;
  }
  return options.parallelism_config && options.parallelism_config->fsdp &&
         options.parallelism_config->fsdp->sharding_strategy != ShardingStrategy::kNoShard;
}

void check_device(const TrainerOptions& options, Conflicts& found) {
  const bool sees_gpu = torch::cuda::is_available();
  const bool on_gpu = options.device ? *options.device == DeviceKind::kGpu : sees_gpu;
  check_microbatch_size(options.device_train_microbatch_size, !on_gpu, is_sharded(options), found);
  if (options.device) {
    found.add(!options.device->value(),
              "device is '" + *options.device + "'; this version knows cpu and gpu");
    found.add(on_gpu && !sees_gpu, "device is gpu, and this libtorch sees none");
  }
  if (options.precision) {
    const auto precision = options.precision->value();
    found.add(!precision, "precision is '" + *options.precision +
                              "'; this version knows fp32, amp_fp16 and amp_bf16");
    if (precision && !on_gpu) {
      const std::string problem = cpu_precision_problem(*precision, cpu_has_bfloat16());
      found.add(!problem.empty(), problem);
    }
  }
  found.add(options.deterministic_mode && options.allow_tf32.value_or(false),
            "allow_tf32 does not go with deterministic_mode: which products are rounded to TF32 "
            "depends on the GPU; leave one of them out");
  found.add(options.deterministic_mode && options.cudnn_benchmark,
            "cudnn_benchmark does not go with deterministic_mode: the fastest algorithm may be "
            "another one in each run; leave one of them out");
  constexpr std::int64_t kMaxSeed = 0xFFFFFFFF;
  found.add(options.seed && (*options.seed < 0 || *options.seed > kMaxSeed),
            "seed is outside [0, 2^32 - 1]");
}

// Adds conflicts to `found`. An UnsupportedError about `config` goes on to the caller.
void check_sharding(const TrainerOptions& options, const FSDPConfig& config, Conflicts& found) {
  try {
    check_fsdp_config(config);
  } catch (const UsageError& error) {
    found.add(true, error.what());
    return;
  }
  if (config.sharding_strategy == ShardingStrategy::kNoShard) return;
  found.add(options.load_in_place,
            "load_in_place does not go with parallelism_config: each rank reads its rows of the "
            "weights, which takes no more memory; leave it out");
  found.add(options.ddp_sync_strategy == DdpSyncStrategy::kForcedSync,
            "ddp_sync_strategy forced_sync does not go with parallelism_config, which averages "
            "gradients in every backward(); leave it out");
}

// Adds conflicts to `found`. An UnsupportedError goes on to the caller.
void check_deepspeed(const TrainerOptions& options, Conflicts& found) {
  if (!options.deepspeed_config) return;
  found.add(options.parallelism_config && options.parallelism_config->fsdp,
            "deepspeed_config and parallelism_config both say how the model is sharded: give one");
  found.add(options.load_in_place,
            "load_in_place does not go with deepspeed_config: each rank reads its own rows, which "
            "takes no more memory; leave it out");
  try {
    found.add(deepspeed_stage(*options.deepspeed_config) > 0 &&
                  options.ddp_sync_strategy == DdpSyncStrategy::kForcedSync,
              "ddp_sync_strategy forced_sync does not go with deepspeed_config of stage 1 to 3, "
              "which average gradients in every backward(); leave it out");
  } catch (const UsageError& error) {
    found.add(true, error.what());
  }
}

void check_ranks(const TrainerOptions& options, Conflicts& found) {
  dist::world_size();  // Throws UsageError if the environment does not tell this process its rank.
  const double timeout = options.dist_timeout.count();
  found.add(!(timeout > 0) || !std::isfinite(timeout),
            "dist_timeout is not a positive number of seconds");
  found.add(!options.ddp_sync_strategy.value(),
            "ddp_sync_strategy is '" + options.ddp_sync_strategy +
                "'; give single_auto_sync, multi_auto_sync or forced_sync");
  if (options.parallelism_config && options.parallelism_config->fsdp) {
    check_sharding(options, *options.parallelism_config->fsdp, found);
  }
}

}  // namespace

TrainerOptions resolve(TrainerOptions options) {
  Conflicts found("TrainerOptions");
  check_deepspeed(options, found);
  check_training(options, found);
  check_evaluation(options, found);
  check_console(options, found);
  check_checkpoints(options, found);
  check_autoresume(options, found);
  check_device(options, found);
  check_ranks(options, found);
  found.raise();

  if (!options.run_name) options.run_name = run_name_of_environment();
  // The other ranks take rank 0's name (join_ranks()).
  if (!options.run_name && dist::rank() == 0) options.run_name = invent_run_name();
  if (!options.device) {
    options.device = torch::cuda::is_available() ? DeviceKind::kGpu : DeviceKind::kCpu;
  }
  if (!options.precision) {
    const bool on_gpu = *options.device == DeviceKind::kGpu;
    options.precision = on_gpu ? Precision::kAmpFp16 : Precision::kFp32;
  }
  if (!options.seed) options.seed = random_seed();
  return options;
}

void check(const FitOptions& options, const State& state) {
  Conflicts found("fit()");
  check_train_subset(options.train_subset_num_batches, found);
  check_ratio(options.scale_schedule_ratio, options.schedulers.has_value(), found);
  check_microbatch_size(options.device_train_microbatch_size, state.device == "cpu",
                        state.sharding != nullptr, found);
  if (options.duration) {
    const TimeUnit unit = options.duration->time().unit();
    found.add(unit == TimeUnit::kSecond || unit == TimeUnit::kDuration,
              "duration is " + options.duration->time().to_string() +
                  "; its unit must be iter, ep, ba, sp or tok");
  }
  found.raise();
}

}  // namespace cairn
