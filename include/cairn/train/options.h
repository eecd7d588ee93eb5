// TrainerOptions: Composer's Trainer arguments, in Composer's order, as designated initializers.
// docs/trainer.md explains each: its default, and when to change it.
// Arguments that this version does not have (profiler, compile, remote stores, ...) are
// listed in docs/from_composer.md.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/dist/fsdp_config.h"
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
#include "cairn/train/model.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/scheduler.h"
#include "cairn/value.h"

namespace cairn {

// In Composer's order. Everything but the model has a default that fits most runs; what is commonly
// set: train_dataloader, max_duration, optimizers, save_folder, run_name and autoresume. The
// Trainer owns what is given by value, and shares what is given as a shared pointer.
struct TrainerOptions {  // NOLINT(clang-analyzer-optin.performance.Padding)
  // --- What is trained --------------------------------------------------------------------------

  // Required: classifier(net), or a class of yours derived from Model.
  ModelHandle model = {};
  // Or give it to fit(). torch's own loaders go through from_torch_data().
  DataSpecOrLoader train_dataloader = {};
  // Metrics of training are logged under metrics/<label>/.
  std::string train_dataloader_label = "train";
  // Ends every epoch after this many batches. For trying things out, and for loaders that do not
  // know their length. nullopt, or Composer's -1: none is cut.
  std::optional<std::int64_t> train_subset_num_batches = std::nullopt;
  // On resume inside an epoch: go on behind the batches that were trained. False saves the seek
  // with loaders that can only draw and drop, and trains those batches twice.
  bool spin_dataloaders = true;
  // "20ep", "900ba", "1e6sp", ...; not in "dur" or "sec". Or give fit() a duration.
  std::optional<Duration> max_duration = std::nullopt;
  // What changes the computation: EMA, GradientClipping, LabelSmoothing. They run in this order, at
  // events called after_* in the reverse one.
  HandleList<Algorithm> algorithms = {};
  // A recipe, AdamW({.lr = 1e-3}), or a shared pointer to an optimizer over the model's parameters.
  // Default: DecoupledSGDW(lr=0.1), with a warning: it fits few models.
  OptimizerHandle optimizers = {};
  // Composer's or PyTorch's, of cairn/schedulers/. None: a constant rate.
  HandleList<Scheduler> schedulers = {};
  // Makes max_duration and all schedules so much longer or shorter: a short trial of a long recipe.
  // UsageError without schedulers.
  double scale_schedule_ratio = 1.0;
  // Whether rates change every batch or every epoch. Default: every batch, every epoch when there
  // is a scheduler of PyTorch's: docs/from_composer.md.
  std::optional<bool> step_schedulers_every_batch = std::nullopt;
  // A loader, a DataSpec, or Evaluators with a label each.
  EvaluatorList eval_dataloader = {};
  // How often they run; 0: never. The time they take is not counted as training.
  Interval eval_interval = 1;
  // For every Evaluator that does not say otherwise. nullopt, or Composer's -1: all batches.
  std::optional<std::int64_t> eval_subset_num_batches = std::nullopt;
  // Code at the events of the run. With any callback or logger the losses are read after each
  // batch, which waits for a GPU.
  HandleList<Callback> callbacks = {};
  HandleList<LoggerDestination> loggers = {};
  // What {run_name} in file names stands for, and how autoresume knows its checkpoints. Default:
  // COMPOSER_RUN_NAME, then RUN_NAME of the environment, then an invented one.
  std::optional<std::string> run_name = std::nullopt;
  // On a terminal redrawn in place, elsewhere a line from time to time.
  bool progress_bar = true;
  // Metrics as lines of text, for logs that are kept; the bar is best off then.
  bool log_to_console = false;
  // The stream of both: "stderr" or "stdout".
  Word<ConsoleStream> console_stream = ConsoleStream::kStderr;
  // Of log_to_console: epochs or batches.
  Interval console_log_interval = "1ba";
  // Also log which algorithm ran at which event.
  bool log_traces = false;

  // --- Loading ----------------------------------------------------------------------------------

  // The checkpoint to begin with, of cairn or Composer; {run_name} and {rank} are filled in. With
  // autoresume it counts only while the run has no checkpoint of its own.
  std::optional<std::string> load_path = std::nullopt;
  // Where load_path is; null: local_store(). Autoresume looks into the savers' stores.
  std::shared_ptr<ObjectStore> load_object_store = nullptr;
  // Only the model's weights: for fine-tuning. Time, optimizer and random state start afresh.
  bool load_weights_only = false;
  // Every name of the model must be in the file and the other way round. Shapes must fit always.
  bool load_strict_model_weights = true;
  // How far a load from a store that is far away is: a line on console_stream.
  bool load_progress_bar = true;
  // Weights are read straight into the model: no memory beside it, and less time. A disk that fails
  // meanwhile, or damage that is found then, leaves it with some of each: load_path throws, and
  // autoresume goes on to an older checkpoint, or throws when there is none.
  bool load_in_place = false;
  // Parts of the file to pass over: patterns of paths, or a function.
  IgnoreKeys load_ignore_keys = {};
  // Names of algorithms whose saved state is passed over.
  std::vector<std::string> load_exclude_algorithms = {};
  // The most that one request asks a far store for, in bytes, at least 256 KiB. nullopt (or 0): as
  // the store likes, which is faster. Composer had this option until 0.7, with 1 MiB.
  std::optional<std::uint64_t> load_chunk_size = std::nullopt;

  // --- Saving -----------------------------------------------------------------------------------

  // None: nothing is saved. Adds a CheckpointSaver, unless there is one among the callbacks.
  std::optional<std::string> save_folder = std::nullopt;
  // dist and time variables; the extension chooses container and compression.
  std::string save_filename = "ep{epoch}-ba{batch}-rank{rank}.pt";
  // A link to the newest, which autoresume needs; nullopt: none.
  std::optional<std::string> save_latest_filename = "latest-rank{rank}.pt";
  // Names that loggers give to uploaded checkpoints and to the link; dist and time variables.
  // Default: {save_folder}/{save_filename}. Refused where save_folder is in a store.
  std::optional<std::string> save_remote_file_name = std::nullopt;
  std::optional<std::string> save_latest_remote_file_name = std::nullopt;
  // False: fit() refuses to start where it would replace a file.
  bool save_overwrite = false;
  // What a crash can cost. Training waits for a copy in memory only, so "100ba" is no luxury.
  Interval save_interval = "1ep";
  // Files that nothing can be resumed from; a third of the size with Adam.
  bool save_weights_only = false;
  IgnoreKeys save_ignore_keys = {};
  // The oldest are removed when a newer one is durable. nullopt, or Composer's -1, keeps all. 0 is
  // of use only with loggers that upload: each file is removed when it is uploaded. In a store
  // nothing is on this machine.
  std::optional<int> save_num_checkpoints_to_keep = std::nullopt;
  // The state of metrics, too: for runs that stop inside epochs whose metrics matter.
  bool save_metrics = false;

  // --- Resuming, device, randomness -------------------------------------------------------------

  // Go on from the newest checkpoint in save_folder that is whole, or begin where there is none:
  // one command starts and restarts a job. Needs run_name, save_folder and save_latest_filename.
  bool autoresume = false;
  // Begin anew even if save_folder holds a whole checkpoint of this run that autoresume cannot
  // take. (Its name is of another save_filename, another form of run saved it, or it cannot be
  // loaded.) If false, such a start is refused: UsageError that says which checkpoint and why.
  bool autoresume_may_begin_anew = false;
  // "cpu" or "gpu"; default: gpu if there is one.
  std::optional<Word<DeviceKind>> device = std::nullopt;
  // "fp32", "amp_fp16", "amp_bf16"; default: amp_fp16 on a GPU, fp32 elsewhere, which is all that a
  // CPU can. amp_bf16, on newer GPUs, needs no loss scaling.
  std::optional<Word<Precision>> precision = std::nullopt;
  // The batch is computed in parts of so many samples with the gradient of the whole, for what does
  // not fit the memory. Default: whole. What looks across a batch (BatchNorm) sees the parts.
  std::optional<std::int64_t> device_train_microbatch_size = std::nullopt;
  // Weighs the parts by tokens, not samples: for padded text.
  bool accumulate_train_batch_on_tokens = false;
  // [0, 2^32 - 1]; default: random. A resumed run takes the checkpoint's.
  std::optional<std::int64_t> seed = std::nullopt;
  // PyTorch's deterministic algorithms: slower on a GPU, the same bits every time; an error where
  // there is none.
  bool deterministic_mode = false;

  // --- Several processes (docs/distributed.md) ---------------------------------------------------

  // How long one rank waits for the others, in whatever they do together.
  Seconds dist_timeout = std::chrono::minutes(5);
  // When gradients are averaged over the ranks: "single_auto_sync", in the last microbatch's
  // backward(), "multi_auto_sync", in every one's, "forced_sync", after the last one.
  Word<DdpSyncStrategy> ddp_sync_strategy = DdpSyncStrategy::kSingleAutoSync;
  // Parameters, gradients and optimizer state spread over the ranks: {.fsdp = FSDPConfig{}}. For
  // models that do not fit beside their optimizer's state; wrap their parts in Sharded<>.
  std::optional<ParallelismConfig> parallelism_config = std::nullopt;
  // Composer's, of the time before FSDP: Dict{{"zero_optimization", Dict{{"stage", 3}}}}. Shards as
  // parallelism_config does (stage 0: not at all), and every rank saves a tar of its own, with
  // {rank} in save_filename, that holds DeepSpeed's files: docs/distributed.md. Other keys are
  // refused, but for those that say what holds anyway.
  std::optional<Value> deepspeed_config = std::nullopt;

  // --- cairn's own ------------------------------------------------------------------------------

  // Writes in the background, from a copy of the state that is kept for the next save. False: a
  // save is durable when its event returns, and needs no copy.
  bool save_async = true;
  // Saves that may wait for the background thread, each with a copy of its own.
  int save_max_pending = 1;
  // save_num_checkpoints_to_keep in a store, and where loggers upload to; at least 1.
  std::optional<int> save_num_remote_checkpoints_to_keep = std::nullopt;
  // How long the end of fit() and close() wait for checkpoints on their way to a store.
  std::chrono::seconds save_upload_timeout = std::chrono::seconds(3600);
  // How long a store may be away, when the run starts and when it saves, before the run ends with
  // the store's error (kStorage). Training goes on meanwhile.
  std::chrono::seconds save_store_patience = std::chrono::seconds(1800);
  // Where save_folder is, and where save_checkpoint() writes; null: local_store().
  std::shared_ptr<ObjectStore> save_object_store = nullptr;
  // From construction to close(). SIGTERM, SIGINT, SIGUSR1: fit() saves and stops; SIGUSR2: saves.
  // False where the program has handlers of its own.
  bool handle_signals = true;
  // FitResult::exit_code after such a stop (sysexits' EX_TEMPFAIL), by which whoever started the
  // job knows to start it again.
  int interrupted_exit_code = 75;
};

// TrainerOptions after all checks, with defaults filled in and names completed. If a rank other
// than 0 has no run_name, it stays absent: the Trainer takes rank 0's.
// Throws one UsageError that lists every conflict and names its options.
TrainerOptions resolve(TrainerOptions options);

}  // namespace cairn
