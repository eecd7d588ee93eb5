// TrainerOptions: Composer's Trainer arguments, in Composer's order, as designated initializers.
// docs/trainer.md explains each: its default, and when to change it.
// docs/from_composer.md lists the arguments that this version does not have.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/checkpoint/keep_best.h"
#include "cairn/dist/fsdp_config.h"
#include "cairn/export.h"
#include "cairn/seconds.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/callback.h"
#include "cairn/train/choices.h"
#include "cairn/train/data.h"
#include "cairn/train/duration.h"
#include "cairn/train/evaluator.h"
#include "cairn/train/handle.h"
#include "cairn/train/interval.h"
#include "cairn/train/logger.h"
#include "cairn/train/microbatch_size.h"
#include "cairn/train/model.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/scheduler.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

class Profiler;

// In Composer's order. Everything except the model has a default that fits most runs. Commonly set
// are train_dataloader, max_duration, optimizers, save_folder, run_name and autoresume. The Trainer
// owns what is passed by value, and shares what is passed as a shared pointer.
struct TrainerOptions {  // NOLINT(clang-analyzer-optin.performance.Padding)
  // --- What is trained --------------------------------------------------------------------------

  // Required: classifier(net), or an object of your own class derived from Model.
  ModelHandle model = {};
  // May be passed to fit() instead. For torch's own loaders use from_torch_data().
  DataSpecOrLoader train_dataloader = {};
  // Training metrics are logged under metrics/<label>/.
  std::string train_dataloader_label = "train";
  // Ends every epoch after this many batches: for trying things out, and for loaders that do not
  // know their length. nullopt, or Composer's -1: epochs are not cut.
  std::optional<std::int64_t> train_subset_num_batches = std::nullopt;
  // If true, a run that resumes inside an epoch continues after the batches that were trained. If
  // false, loaders that cannot seek do not draw and drop these batches, so the batches are trained
  // twice.
  bool spin_dataloaders = true;
  // "20ep", "900ba", "1e6sp", ...; not in "dur" or "sec". May be replaced by fit()'s duration.
  std::optional<Duration> max_duration = std::nullopt;
  // Code that changes the computation: EMA, GradientClipping, LabelSmoothing, ChannelsLast.
  // Algorithms run in this order, and at events called after_* in reverse order.
  HandleList<Algorithm> algorithms = {};
  // A recipe, AdamW({.lr = 1e-3}), or a shared pointer to an optimizer over the model's parameters.
  // Default: DecoupledSGDW(lr=0.1), with a warning, since it suits few models; none if there is no
  // train_dataloader either, so that a run that only evaluates takes any checkpoint.
  OptimizerHandle optimizers = {};
  // Composer's or PyTorch's, from cairn/schedulers/. None: a constant rate.
  HandleList<Scheduler> schedulers = {};
  // Multiplies max_duration and all schedules by this factor, for a short trial of a long recipe.
  // Throws UsageError without schedulers.
  double scale_schedule_ratio = 1.0;
  // Whether rates change every batch or every epoch. Default: every batch, or every epoch if one of
  // the schedulers is PyTorch's: docs/from_composer.md.
  std::optional<bool> step_schedulers_every_batch = std::nullopt;
  // A loader, a DataSpec, or Evaluators with different labels.
  EvaluatorList eval_dataloader = {};
  // How often evaluations run; 0: never. Their time does not count as training.
  Interval eval_interval = 1;
  // For every Evaluator that does not set subset_num_batches. nullopt, or Composer's -1: all
  // batches.
  std::optional<std::int64_t> eval_subset_num_batches = std::nullopt;
  // Code that runs at events. Callbacks of your own make training wait for a GPU in each batch,
  // unless they say that they need no losses (Callback::needs_losses()).
  HandleList<Callback> callbacks = {};
  HandleList<LoggerDestination> loggers = {};
  // The value of {run_name} in file names, by which autoresume finds the run's checkpoints.
  // Default: the environment's COMPOSER_RUN_NAME, then RUN_NAME, then an invented name.
  std::optional<std::string> run_name = std::nullopt;
  // A bar that is redrawn in place on a terminal; elsewhere a line from time to time.
  bool progress_bar = true;
  // Metrics as lines of text, for logs that are kept. Turn the bar off then.
  bool log_to_console = false;
  // The stream of the bar and of log_to_console: "stderr" or "stdout".
  Word<ConsoleStream> console_stream = ConsoleStream::kStderr;
  // The interval of log_to_console: epochs or batches.
  Interval console_log_interval = "1ba";
  // Also log which algorithm ran at which event.
  bool log_traces = false;
  // Log these options, as texts, as hyperparameters. (Composer: the constructor's arguments.)
  bool auto_log_hparams = false;

  // --- Loading ----------------------------------------------------------------------------------

  // The checkpoint to begin with, written by cairn or Composer; {run_name} and {rank} are filled
  // in. With autoresume it is used only while the run has no checkpoint of its own.
  std::optional<std::string> load_path = std::nullopt;
  // The store of load_path; null: local_store(). Autoresume searches the savers' stores.
  std::shared_ptr<ObjectStore> load_object_store = nullptr;
  // Load only the model's weights, for fine-tuning. Time, optimizer and random state start afresh.
  bool load_weights_only = false;
  // If true, the names in the model and in the file must be the same. Shapes must always fit.
  bool load_strict_model_weights = true;
  // Show the progress of a load from a far store as a line on console_stream.
  bool load_progress_bar = true;
  // Read weights straight into the model: no additional memory, and less time. If a disk fails or
  // damage is found meanwhile, the model is left with a mix of old and new weights. load_path then
  // throws. autoresume continues with an older checkpoint, or throws if there is none.
  bool load_in_place = false;
  // Parts of the file to leave out: patterns of paths, or a function.
  IgnoreKeys load_ignore_keys = {};
  // Names of algorithms whose saved state is not loaded.
  std::vector<std::string> load_exclude_algorithms = {};
  // The most bytes that one request asks a far store for, at least 256 KiB. nullopt (or 0): the
  // store decides, which is faster. Composer had this option until 0.7, with 1 MiB.
  std::optional<std::uint64_t> load_chunk_size = std::nullopt;

  // --- Saving -----------------------------------------------------------------------------------

  // nullopt: nothing is saved. Otherwise adds a CheckpointSaver, unless the callbacks contain one
  // already.
  std::optional<std::string> save_folder = std::nullopt;
  // dist and time variables; the extension selects container and compression.
  std::string save_filename = "ep{epoch}-ba{batch}-rank{rank}.pt";
  // A link to the newest checkpoint, which autoresume needs; nullopt: none.
  std::optional<std::string> save_latest_filename = "latest-rank{rank}.pt";
  // Names under which loggers upload checkpoints and the link; dist and time variables. Default:
  // {save_folder}/{save_filename}. A UsageError if save_folder is in a store.
  std::optional<std::string> save_remote_file_name = std::nullopt;
  std::optional<std::string> save_latest_remote_file_name = std::nullopt;
  // If false, fit() refuses to start if it would replace a file.
  bool save_overwrite = false;
  // How much training a crash can lose. Training only waits for a copy in memory, so "100ba" is
  // cheap.
  Interval save_interval = "1ep";
  // Saves weights only, a third of the size with Adam. A run cannot resume from them.
  bool save_weights_only = false;
  IgnoreKeys save_ignore_keys = {};
  // Checkpoints to keep on this machine. The oldest are removed when a newer one is durable.
  // nullopt, or Composer's -1, keeps all. 0 is useful only with loggers that upload: each file is
  // removed after its upload. Has no effect in a store.
  std::optional<int> save_num_checkpoints_to_keep = std::nullopt;
  // Save the state of metrics, too: for runs that stop inside epochs whose metrics matter.
  bool save_metrics = false;

  // --- Resuming, device, randomness -------------------------------------------------------------

  // Resume from the newest whole checkpoint in save_folder, or begin if there is none: one command
  // starts and restarts a job. Requires run_name, save_folder and save_latest_filename.
  bool autoresume = false;
  // If false, the start throws UsageError if save_folder holds a whole checkpoint of this run that
  // autoresume cannot take. The error names the checkpoint and the reason. (Its name was made from
  // another save_filename, a run of another form saved it, or it cannot be loaded.) If true, the
  // run begins anew.
  bool autoresume_may_begin_anew = false;
  // "cpu" or "gpu". Default: gpu if there is one.
  std::optional<Word<DeviceKind>> device = std::nullopt;
  // "fp32", "amp_fp16" or "amp_bf16". Default: amp_fp16 on a GPU, and fp32 on a CPU. amp_bf16, on
  // newer GPUs and on processors with bfloat16, needs no loss scaling. A CPU does not take
  // amp_fp16.
  std::optional<Word<Precision>> precision = std::nullopt;
  // The batch is computed in parts of this many samples, with the gradient of the whole batch. For
  // batches that do not fit the memory. Default: the whole batch at once. Code that looks across a
  // batch (BatchNorm) sees the parts. "auto": the whole batch; whenever a GPU's memory runs out,
  // the size is halved for the rest of the run, and the batch is computed again (docs/trainer.md).
  std::optional<MicrobatchSize> device_train_microbatch_size = std::nullopt;
  // Weighs the parts by tokens, not by samples: for padded text.
  bool accumulate_train_batch_on_tokens = false;
  // In [0, 2^32 - 1]. Default: random. A resumed run takes the checkpoint's seed.
  std::optional<std::int64_t> seed = std::nullopt;
  // Use PyTorch's deterministic algorithms: slower on a GPU, the same bits every time. Operations
  // that have none throw.
  bool deterministic_mode = false;
  // PyTorch's torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32, which
  // Composer's DeviceGPU sets to true: float32 products on a GPU are rounded to TF32 (10 bits), and
  // are several times faster. nullopt: libtorch's setting stays (only convolutions). For the whole
  // process, also after this Trainer, as deterministic_mode is. No effect on a CPU.
  std::optional<bool> allow_tf32 = std::nullopt;
  // PyTorch's torch.backends.cudnn.benchmark: cuDNN times its algorithms for each new shape, and
  // takes the fastest, which may have other bits in each run. For models whose batches have one
  // shape. For the whole process. No effect on a CPU.
  bool cudnn_benchmark = false;

  // --- Several processes (docs/distributed.md) ---------------------------------------------------

  // How long one rank waits for the others in each collective.
  Seconds dist_timeout = std::chrono::minutes(5);
  // When gradients are averaged over the ranks: "single_auto_sync": in the last microbatch's
  // backward(); "multi_auto_sync": in every backward(); "forced_sync": after the last backward().
  Word<DdpSyncStrategy> ddp_sync_strategy = DdpSyncStrategy::kSingleAutoSync;
  // Spreads parameters, gradients and optimizer state over the ranks: {.fsdp = FSDPConfig{}}. For
  // models that do not fit together with their optimizer's state; wrap their parts in Sharded<>.
  std::optional<ParallelismConfig> parallelism_config = std::nullopt;
  // Composer's option from before FSDP: Dict{{"zero_optimization", Dict{{"stage", 3}}}}. Shards as
  // parallelism_config does (stage 0: does not shard). Every rank saves a tar of its own, with
  // {rank} in save_filename, that holds DeepSpeed's files: docs/distributed.md. Other keys are
  // refused, except those that describe what cairn does anyway.
  std::optional<Value> deepspeed_config = std::nullopt;

  // --- Profile and messages ---------------------------------------------------------------------

  // Records where the time of some batches goes: Profiler({...}), of cairn/callbacks/profiler.h.
  // Joins the callbacks, after them.
  Handle<Profiler> profiler = {};

  // The lines for people that this Trainer logs: "info": all; "warning": warnings; "error": none.
  // (Composer: python_log_level.) Errors are exceptions, and are always thrown.
  Word<LogLevel> log_level = LogLevel::kInfo;

  // --- cairn's own ------------------------------------------------------------------------------

  // Saves are written in the background, from a copy of the state, whose memory is reused. If
  // false, a save is durable when its event returns, and needs no copy.
  bool save_async = true;
  // Saves that may wait for the background thread, each with a copy of its own.
  int save_max_pending = 1;
  // Checkpoints to keep in a store, and in each place that loggers upload to; at least 1.
  std::optional<int> save_num_remote_checkpoints_to_keep = std::nullopt;
  // Keeps the best checkpoints beside the newest ones of the two numbers, one of which must be set.
  // `metric` is "LABEL/NAME" as in logs: "eval/MulticlassAccuracy". docs/checkpoints.md has more.
  std::optional<KeepBest> save_keep_best = std::nullopt;
  // How long the end of fit() and close() wait for uploads of checkpoints.
  std::chrono::seconds save_upload_timeout = std::chrono::seconds(3600);
  // How long the run retries a store that does not answer, at the start and at each save, before it
  // ends with the store's error (kStorage). Training goes on meanwhile.
  std::chrono::seconds save_store_patience = std::chrono::seconds(1800);
  // The store of save_folder and of save_checkpoint(); null: local_store().
  std::shared_ptr<ObjectStore> save_object_store = nullptr;
  // Handle signals from construction to close(): on SIGTERM, SIGINT and SIGUSR1 fit() saves and
  // stops; on SIGUSR2 it saves. Set it to false if the program has handlers of its own.
  bool handle_signals = true;
  // FitResult::exit_code after such a stop (sysexits' EX_TEMPFAIL). This exit code tells the job's
  // launcher to start the job again.
  int interrupted_exit_code = 75;
};

// Returns TrainerOptions after all checks, with defaults filled in and names completed. If a rank
// other than 0 has no run_name, it stays absent: the Trainer takes rank 0's. Throws one UsageError
// that lists every conflict and names its options.
TrainerOptions resolve(TrainerOptions options);

}  // namespace cairn
