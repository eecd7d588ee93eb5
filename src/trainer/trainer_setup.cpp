// Construction of a Trainer: steps 1 to 8 of trainer_impl.h.

#include <ATen/Context.h>
#include <stdlib.h>
#include <torch/torch.h>

#include <algorithm>
#include <iostream>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/loggers/console_logger.h"
#include "cairn/loggers/progress_bar_logger.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/parameters.h"
#include "cairn/train/rng.h"
#include "cairn/train/scaler.h"

#include "callbacks/saver_of_run.h"
#include "dist/group.h"
#include "dist/team.h"
#include "io/file.h"
#include "io/machine.h"
#include "train/data/data_spec.h"
#include "train/loop/compute.h"
#include "train/optimizer/parameter_names.h"
#include "trainer/check_savers.h"
#include "trainer/rank_facts.h"
#include "trainer/ranks.h"
#include "trainer/resume.h"
#include "trainer/trainer_impl.h"

namespace cairn {
namespace {

void make_deterministic(bool on_gpu) {
  // cuBLAS reads it when it is first used; a value that the user chose stays.
  if (on_gpu) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setBenchmarkCuDNN(false);
  at::globalContext().setDeterministicCuDNN(true);
}

template <class Destination>
bool has(const Logger& logger) {
  return std::ranges::any_of(logger.destinations(), [](const auto& destination) {
    return dynamic_cast<const Destination*>(destination.get()) != nullptr;
  });
}

// As Composer's Trainer: a local folder is a part of the objects' names, too, unless `remote` says
// what they are called.
std::optional<std::string> remote_name(const TrainerOptions& options,
                                       const std::optional<std::string>& remote,
                                       const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  return remote ? *remote : join_path(*options.save_folder, *name);
}

CheckpointSaver saver_of(const TrainerOptions& options) {
  return CheckpointSaver(
      {.folder = *options.save_folder,
       .filename = options.save_filename,
       .remote_file_name =
           remote_name(options, options.save_remote_file_name, options.save_filename),
       .latest_filename = options.save_latest_filename,
       .latest_remote_file_name =
           remote_name(options, options.save_latest_remote_file_name, options.save_latest_filename),
       .save_interval = options.save_interval,
       .overwrite = options.save_overwrite,
       .num_checkpoints_to_keep = options.save_num_checkpoints_to_keep,
       .weights_only = options.save_weights_only,
       .ignore_keys = options.save_ignore_keys,
       .upload_timeout = options.save_upload_timeout,
       .num_remote_checkpoints_to_keep = options.save_num_remote_checkpoints_to_keep,
       .save_async = options.save_async,
       .max_pending_saves = options.save_max_pending,
       .store = options.save_object_store});
}

}  // namespace

Trainer::Impl::Impl(TrainerOptions resolved_options) : options(std::move(resolved_options)) {
  if (options.handle_signals) signals.emplace();
  join_ranks();
  choose_device();
  state.rank_zero_seed = *options.seed;
  seed_generators();
  state.run_name = *options.run_name;
  state.save_metrics = options.save_metrics;
  state.model = options.model.shared();
  for (const auto& algorithm : options.algorithms)
    state.algorithms.push_back(algorithm.shared());
  assemble_callbacks();
  check_savers();
  if (context.group != nullptr) logger.log_message(dist::describe());
  logger.log_message(set_up_threads(usable_processors_of_rank()));
  shard_model();
  make_optimizer();
  check_sharded();
  engine.run_event(Event::kInit);
  // Again, by the names of what ranks save together, which they are told there.
  check_paths(savers_among(state.callbacks), state.run_name, uploads);
  if (state.optimizer) named_groups(*state.optimizer, state.model->module());  // after surgery

  log_hyperparameters();
  state.train_metrics = state.model->get_metrics(/*is_train=*/true);
  check_loaders_of_rank(options.eval_dataloader);
  evaluators.set_evaluators(options.eval_dataloader,
                            {options.eval_interval, options.eval_subset_num_batches});
  if (options.max_duration) state.max_duration = options.max_duration->time();
  if (options.train_dataloader) {
    bind_train_dataloader(options.train_dataloader, options.train_dataloader_label);
    subset_train_dataloader(options.train_subset_num_batches);
  }
  state.device_train_microbatch_size = options.device_train_microbatch_size;
  scale_max_duration(options.scale_schedule_ratio);
  set_schedulers(options.schedulers, options.scale_schedule_ratio,
                 options.step_schedulers_every_batch);
  make_scaler();
  load();
}

void Trainer::Impl::choose_device() {
  const bool on_gpu = *options.device == "gpu";
  state.device = *options.device;
  state.precision = *options.precision;
  choose_device_of_rank();
  context.precision = find_precision(*options.precision).value();
  context.accumulate_on_tokens = options.accumulate_train_batch_on_tokens;
  context.sync_strategy = find_sync_strategy(options.ddp_sync_strategy).value();
  if (options.deterministic_mode) make_deterministic(on_gpu);
  if (on_gpu) options.model->module().to(context.device);
}

void Trainer::Impl::make_optimizer() {
  torch::nn::Module& module = state.model->module();
  std::vector<at::Tensor> parameters = cairn::parameters(module);
  if (parameters.empty()) return;  // a model that cannot be trained; fit() says so
  if (!options.optimizers) {
    logger.log_message(
        "warning: no optimizer was given; training with DecoupledSGDW(lr=0.1). Set optimizers.");
    options.optimizers = DecoupledSGDW({.lr = 0.1});
  }
  state.optimizer = options.optimizers.create(std::move(parameters));
  drop_repeated_parameters(*state.optimizer, module);
  check_optimizer();
}

// What would fail at the first save, or train nothing, fails before the first batch. Of an
// optimizer that cannot be saved the weights can: that is no error until somebody asks for more.
void Trainer::Impl::check_optimizer() {
  if (needs_closure(*state.optimizer) && context.precision == Precision::kAmpFp16) {
    throw UsageError("precision amp_fp16 does not go with the optimizer " +
                     optimizer_name(*state.optimizer) +
                     ", which evaluates a batch several times a step: use amp_bf16 or fp32");
  }
  const bool is_saved = std::ranges::any_of(state.callbacks, [](const auto& callback) {
    const auto* saver = dynamic_cast<const CheckpointSaver*>(callback.get());
    return saver != nullptr && !saver->options().weights_only;
  });
  if (is_saved || can_be_saved(*state.optimizer)) {
    optimizer_state_dict(*state.optimizer, state.model->module());
  } else {
    logger.log_message(
        "warning: the optimizer's class does not say how it is saved, so that only weights can be "
        "saved; see cairn/optim/own_optimizer.h");
  }
}

void Trainer::Impl::assemble_loggers() {
  for (const auto& destination : options.loggers)
    logger.add(destination.shared());
  std::ostream* stream = options.console_stream == "stdout" ? &std::cout : &std::cerr;
  const bool is_first = dist::rank() == 0;  // the others would write over its lines
  if (options.progress_bar && is_first && !has<ProgressBarLogger>(logger)) {
    logger.add(std::make_shared<ProgressBarLogger>(
        ProgressBarLoggerOptions{.stream = stream, .log_traces = options.log_traces}));
  }
  if (options.log_to_console && is_first && !has<ConsoleLogger>(logger)) {
    logger.add(std::make_shared<ConsoleLogger>(
        ConsoleLoggerOptions{.log_interval = options.console_log_interval,
                             .stream = stream,
                             .log_traces = options.log_traces}));
  }
  uploads = std::ranges::any_of(logger.destinations(), [](const auto& destination) {
    return destination->can_upload_files();
  });
  uploads = Team::of_job().of_first(uploads).as_bool();
  if (has<ProgressBarLogger>(logger) && has<ConsoleLogger>(logger)) {
    logger.log_message(
        "warning: progress_bar and log_to_console write over each other; set one of them to false");
  }
}

void Trainer::Impl::assemble_callbacks() {
  assemble_loggers();
  for (const auto& destination : logger.destinations())
    state.callbacks.push_back(destination);
  for (const auto& callback : options.callbacks)
    state.callbacks.push_back(callback.shared());
  if (!options.save_folder) return;
  if (const CheckpointSaver* saver = reference_saver()) {
    logger.log_message(
        "warning: save_folder and the other save_ options are not used: callbacks has "
        "a CheckpointSaver, which saves to " +
        saver->options().folder);
  } else {
    state.callbacks.push_back(std::make_shared<CheckpointSaver>(saver_of(options)));
  }
}

void Trainer::Impl::check_savers() {
  const auto savers = savers_among(state.callbacks);
  check_paths(savers, state.run_name, uploads);
  for (CheckpointSaver* saver : savers) {
    CheckpointSaver::OfRun::rewrite_own_files(*saver, options.autoresume);
  }
  if (options.autoresume) {
    check_autoresume(options.run_name, reference_saver(), autoresume_saver());
  }
}

CheckpointSaver* Trainer::Impl::reference_saver() const {
  const auto savers = savers_among(state.callbacks);
  return savers.empty() ? nullptr : savers.front();
}

CheckpointSaver* Trainer::Impl::autoresume_saver() const {
  for (CheckpointSaver* saver : savers_among(state.callbacks)) {
    if (saves_whole_state(*saver, uploads)) return saver;
  }
  return nullptr;
}

void Trainer::Impl::log_hyperparameters() {
  if (!context.logging()) return;
  // By name: not every launcher says how many processes are on a machine.
  const std::vector<std::string> machines = dist::machines_of_ranks();
  const auto here =
      std::ranges::count(machines, machines.at(static_cast<std::size_t>(dist::rank())));
  const std::string devices = context.device.is_cpu() ? "num_cpus_per_node" : "num_gpus_per_node";
  logger.log_hyperparameters(Dict{{"num_nodes", dist::count_machines()},
                                  {devices, static_cast<std::int64_t>(here)},
                                  {"node_name", node_name()},
                                  {"rank_zero_seed", state.rank_zero_seed}});
}

void Trainer::Impl::make_scaler() {
  // Enabled also for fp32 on a GPU, as in Composer: its state is then in the file.
  state.scaler =
      std::make_unique<GradScaler>(GradScalerOptions{.enabled = !context.device.is_cpu()});
  state.scaler->set_name(context.precision == Precision::kAmpFp16 ? "GradScaler"
                                                                  : "ClosureGradScaler");
}

void Trainer::Impl::load() {
  engine.run_event(Event::kBeforeLoad);
  LoadOutcome outcome = options.autoresume
                            ? resume_or_load(options, state, *autoresume_saver(), logger)
                            : load_first(options, state, logger);
  tell_unused_options(options, outcome, logger);
  loaded_rng = rng_of_rank(std::move(outcome.rng));
  if (outcome.is_loaded) {
    loaded = true;
    resumed_from = outcome.resumed_from;
    if (!resumed_from.empty()) fit_numbers.resume(state.fit_calls);
    if (options.autoresume)
      CheckpointSaver::OfRun::goes_on_from(*autoresume_saver(), outcome.path_of_parts);
  }
  if (resumed_from.empty()) state.fit_calls.reset();  // of another run, or of one begun anew
  Timestamp& now = state.timestamp;
  if (now.iteration == 0 && now.token_in_iteration == 0 && now.epoch_in_iteration == 0) {
    // Files written before Composer 0.19.1 do not have these counters.
    now.epoch_in_iteration = now.epoch;
    now.token_in_iteration = now.token;
  }
  if (context.group != nullptr) require_same_on_ranks(facts_of_optimizer(state));
  check_position_of_ranks();
  engine.run_event(Event::kAfterLoad);
  seed_generators();
}

void Trainer::Impl::bind_train_dataloader(DataSpec dataloader, const std::string& label) {
  check_loader_of_rank(dataloader, "train_dataloader");
  state.train_dataloader = std::move(dataloader);
  state.dataloader = &state.train_dataloader;
  state.dataloader_label = label;
  state.dataloader_len = state.train_dataloader.dataloader->num_batches();
  agree_on_epoch_length();
}

void Trainer::Impl::subset_train_dataloader(std::int64_t batches) {
  const auto all = state.train_dataloader.dataloader->num_batches();
  if (all && batches > *all) {
    logger.log_message("warning: train_subset_num_batches is " + std::to_string(batches) +
                       ", and an epoch has only " + std::to_string(*all) + " batches");
  }
  state.dataloader_len = epoch_length(state.train_dataloader, batches);
  agree_on_epoch_length();
}

void Trainer::Impl::scale_max_duration(double ratio) {
  if (ratio != 1.0 && state.max_duration) state.max_duration = *state.max_duration * ratio;
}

void Trainer::Impl::set_schedulers(const HandleList<Scheduler>& list, double ratio,
                                   std::optional<bool> every_batch) {
  bool any_torch = false;
  state.schedulers.clear();
  schedulers = list;
  for (const auto& scheduler : schedulers) {
    if (!state.optimizer) break;
    if (const auto* composer = dynamic_cast<const ComposerScheduler*>(scheduler.get())) {
      state.schedulers.push_back(attach_lambda_lr(*composer, state, *state.optimizer, ratio));
    } else if (const auto* torch = dynamic_cast<const TorchScheduler*>(scheduler.get())) {
      state.schedulers.push_back(torch->attach(*state.optimizer, ratio));
      any_torch = true;
    } else {
      throw UsageError(
          "schedulers: an object that is neither ComposerScheduler nor TorchScheduler");
    }
  }
  step_schedulers_every_batch = every_batch.value_or(!any_torch);
}

}  // namespace cairn
