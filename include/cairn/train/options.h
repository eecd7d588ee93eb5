// TrainerOptions: Composer's Trainer arguments, in Composer's order, as designated initializers.
// docs/trainer.md explains each: its default, and when to change it.
// Arguments that this version does not have (FSDP, profiler, compile, remote stores, ...) are
// listed in docs/from_composer.md.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/callback.h"
#include "cairn/train/data.h"
#include "cairn/train/duration.h"
#include "cairn/train/evaluator.h"
#include "cairn/train/handle.h"
#include "cairn/train/interval.h"
#include "cairn/train/logger.h"
#include "cairn/train/model.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/scheduler.h"

namespace cairn {

// In Composer's order.
struct TrainerOptions {  // NOLINT(clang-analyzer-optin.performance.Padding)
  // --- What is trained --------------------------------------------------------------------------
  ModelHandle model = {};                  // required
  DataSpecOrLoader train_dataloader = {};  // may be given to fit() instead
  std::string train_dataloader_label = "train";
  std::int64_t train_subset_num_batches = -1;           // ends every epoch after this many batches
  bool spin_dataloaders = true;                         // seek to the position on resume
  std::optional<Duration> max_duration = std::nullopt;  // not in "dur" or "sec"
  HandleList<Algorithm> algorithms = {};
  OptimizerHandle optimizers = {};  // default: DecoupledSGDW(lr=0.1), with a warning
  HandleList<Scheduler> schedulers = {};
  double scale_schedule_ratio = 1.0;
  std::optional<bool> step_schedulers_every_batch = std::nullopt;  // see docs/from_composer.md
  EvaluatorList eval_dataloader = {};
  Interval eval_interval = 1;  // 0: never
  std::int64_t eval_subset_num_batches = -1;
  HandleList<Callback> callbacks = {};
  HandleList<LoggerDestination> loggers = {};
  std::optional<std::string> run_name = std::nullopt;  // else COMPOSER_RUN_NAME, RUN_NAME, invented
  bool progress_bar = true;
  bool log_to_console = false;
  std::string console_stream = "stderr";  // or "stdout"
  Interval console_log_interval = "1ba";  // epochs or batches
  bool log_traces = false;

  // --- Loading ----------------------------------------------------------------------------------
  std::optional<std::string> load_path = std::nullopt;  // {run_name}, {rank}
  // Where load_path is; null: local_store(). Autoresume looks into the savers' stores.
  std::shared_ptr<ObjectStore> load_object_store = nullptr;
  bool load_weights_only = false;
  bool load_strict_model_weights = true;  // names of the model must match; shapes always must
  IgnoreKeys load_ignore_keys = {};
  std::vector<std::string> load_exclude_algorithms = {};

  // --- Saving -----------------------------------------------------------------------------------
  std::optional<std::string> save_folder = std::nullopt;  // none: nothing is saved
  std::string save_filename = "ep{epoch}-ba{batch}-rank{rank}.pt";
  std::optional<std::string> save_latest_filename = "latest-rank{rank}.pt";
  bool save_overwrite = false;
  Interval save_interval = "1ep";
  bool save_weights_only = false;
  IgnoreKeys save_ignore_keys = {};
  int save_num_checkpoints_to_keep = -1;
  bool save_metrics = false;

  // --- Resuming, device, randomness -------------------------------------------------------------
  bool autoresume = false;                           // needs run_name and save_folder
  std::optional<std::string> device = std::nullopt;  // "cpu", "gpu"; default: gpu if there is one
  std::optional<std::string> precision = std::nullopt;  // "fp32", "amp_fp16", "amp_bf16"
  std::optional<std::int64_t> device_train_microbatch_size = std::nullopt;  // default: whole batch
  bool accumulate_train_batch_on_tokens = false;
  std::optional<std::int64_t> seed = std::nullopt;  // [0, 2^32 - 1]; default: random
  bool deterministic_mode = false;

  // --- cairn's own ------------------------------------------------------------------------------
  bool save_async = true;    // false: a save is durable when its event returns
  int save_max_pending = 1;  // saves that may wait for the background thread
  // Where save_folder is, and save_checkpoint() writes; null: local_store().
  std::shared_ptr<ObjectStore> save_object_store = nullptr;
  // From construction to close(). SIGTERM, SIGINT, SIGUSR1: fit() saves and stops; SIGUSR2: saves.
  bool handle_signals = true;
  int interrupted_exit_code =
      75;  // FitResult::exit_code() after such a stop (sysexits EX_TEMPFAIL)
};

// TrainerOptions after all checks, with defaults filled in and names completed.
// Throws one UsageError that lists every conflict and names its options.
TrainerOptions resolve(TrainerOptions options);

}  // namespace cairn
