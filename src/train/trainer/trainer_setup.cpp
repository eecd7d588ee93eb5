// Construction of a Trainer: steps 1 to 8 of trainer_impl.h.

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <stdlib.h>
#include <torch/torch.h>

#include <algorithm>
#include <iostream>
#include <iterator>

#include "cairn/algorithms/channels_last.h"
#include "cairn/algorithms/ema.h"
#include "cairn/algorithms/layer_freezing.h"
#include "cairn/algorithms/no_op_model.h"
#include "cairn/algorithms/sam.h"
#include "cairn/algorithms/selective_backprop.h"
#include "cairn/algorithms/swa.h"
#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/callbacks/profiler.h"
#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/loggers/console_logger.h"
#include "cairn/loggers/progress_bar_logger.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/parameters.h"
#include "cairn/train/rng.h"
#include "cairn/train/scaler.h"

#include "checkpoint/names/launch.h"
#include "dist/backend.h"
#include "dist/group.h"
#include "dist/sharding/sharding.h"
#include "dist/team.h"
#include "io/file.h"
#include "io/machine.h"
#include "resuming/autoresume.h"
#include "resuming/load_path.h"
#include "saving/check_savers.h"
#include "saving/trainer_calls.h"
#include "train/data/data_spec.h"
#include "train/fused/list_step.h"
#include "train/fused/rounding.h"
#include "train/loop/compute.h"
#include "train/optimizer/parameter_names.h"
#include "train/state/checkpoint_form.h"
#include "train/trainer/deepspeed_config.h"
#include "train/trainer/rank_facts.h"
#include "train/trainer/ranks.h"
#include "train/trainer/trainer_impl.h"

namespace cairn {
namespace {

void make_deterministic(bool on_gpu) {
  // cuBLAS reads the variable on first use. A value that the user chose stays.
  if (on_gpu) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setBenchmarkCuDNN(false);
  at::globalContext().setDeterministicCuDNN(true);
}

void choose_gpu_arithmetic(const TrainerOptions& options) {
  if (options.allow_tf32) {
    at::globalContext().setAllowTF32CuBLAS(*options.allow_tf32);
    at::globalContext().setAllowTF32CuDNN(*options.allow_tf32);
  }
  if (options.cudnn_benchmark) at::globalContext().setBenchmarkCuDNN(true);
}

template <class Destination>
bool has(const Logger& logger) {
  return std::ranges::any_of(logger.destinations(), [](const auto& destination) {
    return dynamic_cast<const Destination*>(destination.get()) != nullptr;
  });
}

template <class... Classes>
bool is_any(const Algorithm& algorithm) {
  return (... || (dynamic_cast<const Classes*>(&algorithm) != nullptr));
}

// The threads of cairn's own loader; 0 for other loaders.
int loader_workers_of(const DataLoaderBase* loader) {
  const auto* const own = dynamic_cast<const DataLoader*>(loader);
  return own == nullptr ? 0 : own->options().num_workers;
}

// As in Composer's Trainer, a local folder is also a part of the objects' names, unless `remote`
// gives the names.
std::optional<std::string> remote_name(const TrainerOptions& options,
                                       const std::optional<std::string>& remote,
                                       const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  return remote ? *remote : join_path(*options.save_folder, *name);
}

// Logs which of the weights' types no optimizer steps in one pass on the CPU.
void log_rounding(const State& state, Logger& logger) {
  const std::vector<at::Tensor> weights = parameters(state.model->module());
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto has_type = [type](const at::Tensor& weight) { return weight.scalar_type() == type; };
    if (std::ranges::none_of(weights, has_type)) continue;
    const std::string problem = fused::rounding_problem(type, fused::rounding_of(type));
    if (!problem.empty()) logger.log_message(problem);
  }
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
       .store_patience = options.save_store_patience,
       .num_remote_checkpoints_to_keep = options.save_num_remote_checkpoints_to_keep,
       .keep_best = options.save_keep_best,
       .save_async = options.save_async,
       .max_pending_saves = options.save_max_pending,
       .store = options.save_object_store});
}

}  // namespace

// Builds a Trainer in the order of trainer_impl.h.
class Trainer::Impl::Setup {
 public:
  explicit Setup(Impl& of)
      : trainer(of),
        options(of.options),
        state(of.state),
        logger(of.logger),
        engine(of.engine),
        context(of.context),
        evaluators(of.evaluators) {}

  void run();

 private:
  void join_ranks();
  void warn_of_open_port(const Launch& launch);
  void choose_device();
  void choose_device_of_rank();
  void shard_model();
  void check_sharded() const;
  void make_optimizer();
  void check_optimizer();
  void assemble_loggers();
  void assemble_callbacks();
  void check_savers();
  // The first saver of the whole state; null if there is none.
  CheckpointSaver* autoresume_saver() const;
  void note_options();
  void log_hyperparameters();
  void make_scaler();
  void load();
  void check_position_of_ranks() const;

  Impl& trainer;
  TrainerOptions& options;
  State& state;
  Logger& logger;
  Engine& engine;
  LoopContext& context;
  EvalLoop& evaluators;
  bool uploads = false;  // Whether a logger keeps files; with several processes, whether rank 0 has
                         // such a logger.
};

Trainer::Impl::Impl(TrainerOptions resolved_options) : options(std::move(resolved_options)) {
  if (options.handle_signals) outside.signals.emplace();
  try {
    Setup(*this).run();
  } catch (...) {
    log_failure();
    throw;
  }
}

void Trainer::Impl::Setup::run() {
  logger.set_level(options.log_level.value().value());
  join_ranks();
  choose_device();
  state.rank_zero_seed = *options.seed;
  seed_generators(state.rank_zero_seed);
  state.run_name = *options.run_name;
  state.save_metrics = options.save_metrics;
  state.model = options.model.shared();
  for (const auto& algorithm : options.algorithms)
    state.algorithms.push_back(algorithm.shared());
  assemble_callbacks();
  check_savers();
  if (context.group != nullptr) logger.log_message(dist::describe());
  const DataLoaderBase* const loader = options.train_dataloader.dataloader.get();
  logger.log_message(
      set_up_threads(usable_processors_of_rank(), std::nullopt, loader_workers_of(loader)));
  log_rounding(state, logger);
  const std::string steps = fused::describe_steps(context.device);
  if (!steps.empty()) logger.log_message(steps);
  shard_model();
  make_optimizer();
  check_sharded();
  engine.run_event(Event::kInit);
  // Check again, with the names of checkpoints that ranks save together: savers learn these names
  // at init.
  check_paths(savers_among(state.callbacks), state.run_name, uploads);
  if (state.optimizer) named_groups(*state.optimizer, state.model->module());  // After surgery.

  note_options();
  log_hyperparameters();
  state.train_metrics = state.model->get_metrics(/*is_train=*/true);
  check_loaders_of_rank(options.eval_dataloader);
  evaluators.set_evaluators(options.eval_dataloader,
                            {options.eval_interval, options.eval_subset_num_batches.value_or(-1)});
  if (options.max_duration) state.max_duration = options.max_duration->time();
  if (options.train_dataloader) {
    trainer.bind_train_dataloader(options.train_dataloader, options.train_dataloader_label);
    trainer.subset_train_dataloader(options.train_subset_num_batches.value_or(-1));
  }
  trainer.set_microbatch_size(options.device_train_microbatch_size);
  trainer.scale_max_duration(options.scale_schedule_ratio);
  trainer.set_schedulers(options.schedulers, options.scale_schedule_ratio,
                         options.step_schedulers_every_batch);
  make_scaler();
  load();
}

// On one machine rank 0 listens at 127.0.0.1. torchrun's agent listens itself.
void Trainer::Impl::Setup::warn_of_open_port(const Launch& launch) {
  if (launch.rank != 0 || launch.is_store_hosted || is_on_one_machine(launch)) return;
  logger.log_message(
      "warning: rank 0 listens on all network interfaces, without authentication: let only this "
      "job's machines reach its port. If all ranks are on one machine, set LOCAL_WORLD_SIZE, or "
      "use cairn-run");
}

void Trainer::Impl::Setup::join_ranks() {
  if (!dist::is_initialized() && dist::world_size() > 1) {
    const Launch launch = launch_of();
    logger.log_message(dist::describe() + ": meeting the others at " + launch.master_addr + ":" +
                       (launch.master_port ? std::to_string(*launch.master_port) : "?"));
    warn_of_open_port(launch);
    dist::initialize(
        {.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.dist_timeout)});
  }
  context.group = dist::group();
  if (context.group == nullptr) return;
  const Value agreed =
      Team::of_job().broadcast_from_first(List{options.run_name.value_or(""), *options.seed});
  if (!options.run_name) options.run_name = agreed.as_items().at(0).as_str();
  options.seed = agreed.as_items().at(1).as_int();
  RankFacts facts = facts_of_program(options);
  std::ranges::copy(facts_of(options), std::back_inserter(facts));
  require_same_on_ranks(facts);
  if (dist::rank() != 0) options.load_progress_bar = false;
}

// As in Composer: the process's number on its machine, unless the launcher shows each process only
// its own GPU.
void Trainer::Impl::Setup::choose_device_of_rank() {
  const auto shown = static_cast<std::int64_t>(torch::cuda::device_count());
  RankDevice own = {.device = *options.device};
  if (own.device == "gpu") {
    own.gpu = shown == 1 ? 0 : dist::local_rank();
    own.shown = shown;
    context.device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(own.gpu));
    own.can_share = dist::transport_of(context.device) == dist::Transport::kGloo;
  }
  check_devices_of_ranks(own);
  if (own.device == "gpu") c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(context.device);
}

void Trainer::Impl::Setup::choose_device() {
  const bool on_gpu = *options.device == DeviceKind::kGpu;
  state.device = *options.device;
  state.precision = *options.precision;
  choose_device_of_rank();
  context.precision = options.precision->value().value();
  context.accumulate_on_tokens = options.accumulate_train_batch_on_tokens;
  context.sync_strategy = options.ddp_sync_strategy.value().value();
  if (options.deterministic_mode) make_deterministic(on_gpu);
  choose_gpu_arithmetic(options);
  if (on_gpu) options.model->module().to(context.device);
}

void Trainer::Impl::Setup::make_optimizer() {
  torch::nn::Module& module = state.model->module();
  std::vector<at::Tensor> parameters = cairn::parameters(module);
  if (parameters.empty()) return;  // A model that cannot be trained; fit() reports it.
  // A run that only evaluates takes the weights of any checkpoint, whatever optimizer that has.
  if (!options.optimizers && !options.train_dataloader) return;
  if (!options.optimizers) {
    logger.log_message(
        "warning: no optimizer was given; training with DecoupledSGDW(lr=0.1). Set optimizers.");
    options.optimizers = DecoupledSGDW({.lr = 0.1});
  }
  state.optimizer = options.optimizers.create(std::move(parameters));
  drop_repeated_parameters(*state.optimizer, module);
  check_optimizer();
}

// Finds, before the first batch, errors that would otherwise appear at the first save, or because
// of which nothing would be trained. If the optimizer cannot be saved, the weights still can. So
// this is an error only if a saver needs more than weights.
void Trainer::Impl::Setup::check_optimizer() {
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

void Trainer::Impl::Setup::assemble_loggers() {
  for (const auto& destination : options.loggers)
    logger.add(destination.shared());
  std::ostream* stream = options.console_stream == ConsoleStream::kStdout ? &std::cout : &std::cerr;
  const bool is_first = dist::rank() == 0;  // Other ranks would write over rank 0's lines.
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
  uploads = Team::of_job().broadcast_from_first(uploads).as_bool();
  if (has<ProgressBarLogger>(logger) && has<ConsoleLogger>(logger)) {
    logger.log_message(
        "warning: progress_bar and log_to_console write over each other; set one of them to false");
  }
}

void Trainer::Impl::Setup::assemble_callbacks() {
  assemble_loggers();
  for (const auto& destination : logger.destinations())
    state.callbacks.push_back(destination);
  for (const auto& callback : options.callbacks)
    state.callbacks.push_back(callback.shared());
  if (options.profiler) state.callbacks.push_back(options.profiler.shared());
  if (!options.save_folder) return;
  if (const CheckpointSaver* saver = trainer.reference_saver()) {
    logger.log_message(
        "warning: save_folder and the other save_ options are not used: callbacks has "
        "a CheckpointSaver, which saves to " +
        saver->options().folder);
  } else {
    state.callbacks.push_back(std::make_shared<CheckpointSaver>(saver_of(options)));
  }
}

void Trainer::Impl::Setup::check_savers() {
  const auto savers = savers_among(state.callbacks);
  check_paths(savers, state.run_name, uploads);
  for (CheckpointSaver* saver : savers) {
    CheckpointSaver::TrainerCalls::rewrite_own_files(*saver, options.autoresume);
  }
  if (options.autoresume) require_findable(*autoresume_saver());
}

CheckpointSaver* Trainer::Impl::Setup::autoresume_saver() const {
  for (CheckpointSaver* saver : savers_among(state.callbacks)) {
    if (saves_whole_state(*saver, uploads)) return saver;
  }
  return nullptr;
}

// Before a checkpoint changes the optimizer's rates.
void Trainer::Impl::Setup::note_options() {
  Dict& noted = State::CheckpointForm::of(state).options;
  for (const RankFacts& facts : {facts_of(options), facts_of_optimizer(state)}) {
    for (const auto& [name, text] : facts) {
      // The model's part of a checkpoint names its parameters.
      if (!name.ends_with(": params")) noted.set(name, text);
    }
  }
  // One that cannot be saved has no other name than its class.
  if (!state.optimizer || !can_be_saved(*state.optimizer)) return;
  noted.set("optimizers", optimizer_name(*state.optimizer));
  noted.erase("the optimizer's class");
}

void Trainer::Impl::Setup::log_hyperparameters() {
  if (!context.logging()) return;
  // Count processes by their machines' names, since not every launcher says how many processes a
  // machine has.
  const std::vector<std::string> machines = dist::machines_of_ranks();
  const auto here =
      std::ranges::count(machines, machines.at(static_cast<std::size_t>(dist::rank())));
  const std::string devices = context.device.is_cpu() ? "num_cpus_per_node" : "num_gpus_per_node";
  logger.log_hyperparameters(Dict{{"num_nodes", dist::count_machines()},
                                  {devices, static_cast<std::int64_t>(here)},
                                  {"node_name", node_name()},
                                  {"rank_zero_seed", state.rank_zero_seed}});
  if (options.auto_log_hparams)
    logger.log_hyperparameters(State::CheckpointForm::of(state).options);
}

void Trainer::Impl::Setup::make_scaler() {
  // Enabled also for fp32 on a GPU, as in Composer, so that its state is in the file.
  state.scaler =
      std::make_unique<GradScaler>(GradScalerOptions{.enabled = !context.device.is_cpu()});
  state.scaler->set_name(context.precision == Precision::kAmpFp16 ? "GradScaler"
                                                                  : "ClosureGradScaler");
}

void Trainer::Impl::Setup::load() {
  engine.run_event(Event::kBeforeLoad);
  LoadOutcome outcome = options.autoresume ? autoresume(options, state, *autoresume_saver(), logger)
                                           : load_from_load_path(options, state, logger);
  log_unused_options(options, outcome, logger);
  State::CheckpointForm::of(state).pending_rng = rng_of_rank(std::move(outcome.rng));
  if (outcome.is_loaded) {
    Resumed& resumed = trainer.resumed;
    resumed.is_there = true;
    resumed.from = outcome.resumed_from;
    if (!resumed.from.empty()) trainer.fit_numbers.resume(state.fit_calls);
    if (options.autoresume)
      CheckpointSaver::TrainerCalls::set_loaded_checkpoint(*autoresume_saver(),
                                                           outcome.path_of_parts);
  }
  if (trainer.resumed.from.empty())
    state.fit_calls.reset();  // The calls belong to another run, or the run begins anew.
  Timestamp& now = state.timestamp;
  if (now.iteration == 0 && now.token_in_iteration == 0 && now.epoch_in_iteration == 0) {
    // Files written before Composer 0.19.1 do not have these counters.
    now.epoch_in_iteration = now.epoch;
    now.token_in_iteration = now.token;
  }
  if (context.group != nullptr) require_same_on_ranks(facts_of_optimizer(state));
  check_position_of_ranks();
  engine.run_event(Event::kAfterLoad);
  seed_generators(state.rank_zero_seed);
}

// Also gives all ranks rank 0's weights, whatever weights the ranks began with.
void Trainer::Impl::Setup::check_position_of_ranks() const {
  if (context.group == nullptr) return;
  const auto all = Team::of_job().gather_all(List{state.timestamp.epoch, state.timestamp.batch});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto text = [&](std::size_t of) {
      return "rank " + std::to_string(of) + " is at epoch " +
             std::to_string(all[of].as_items().at(0).as_int()) + ", batch " +
             std::to_string(all[of].as_items().at(1).as_int());
    };
    throw UsageError("the ranks do not begin at the same position: " + text(0) + ", " + text(rank) +
                     ". Give all the same checkpoint");
  }
  torch::nn::Module& module = state.model->module();
  std::vector<at::Tensor> tensors;  // Each rank of a sharded model has its own parameters.
  if (!state.sharding) tensors = unique_tensors(parameters(module));
  for (const at::Tensor& buffer : module.buffers())
    tensors.push_back(buffer);
  dist::broadcast_tensors(tensors, "sending the model's weights");
}

void Trainer::Impl::Setup::shard_model() {
  if (options.deepspeed_config) {
    const std::int64_t stage = deepspeed_stage(*options.deepspeed_config);
    State::CheckpointForm::of(state).deepspeed_stage = stage;
    options.parallelism_config = sharding_of_stage(stage);
  }
  if (!options.parallelism_config || !options.parallelism_config->fsdp) return;
  const FSDPConfig& config = *options.parallelism_config->fsdp;
  if (config.state_dict_type == StateDictType::kSharded) {
    State::CheckpointForm::of(state).sharded_ckpt_prefix_dir = config.sharded_ckpt_prefix_dir;
  }
  dist::set_activation_checkpointing(state.model->module(), config.activation_checkpointing);
  if (context.group == nullptr || config.sharding_strategy == ShardingStrategy::kNoShard) return;
  const std::shared_ptr<torch::nn::Module> module(state.model, &state.model->module());
  state.sharding = fully_shard(module, config);
  if (state.sharding->shard_count() == 1) state.sharding.reset();  // data parallel
  if (state.sharding && config.verbose) logger.log_message(state.sharding->describe());
}

// Refuses algorithms and optimizers that read whole weights or gradients, which no rank has.
void Trainer::Impl::Setup::check_sharded() const {
  if (!state.sharding) return;
  for (const auto& algorithm : state.algorithms) {
    if (!is_any<ChannelsLast, EMA, LayerFreezing, NoOpModel, SAM, SelectiveBackprop, SWA>(
            *algorithm)) {
      continue;
    }
    throw UnsupportedError("parallelism_config: " + algorithm->name() +
                           " needs whole weights, and each rank of a sharded model has only a "
                           "part: leave it out, or set sharding_strategy to NO_SHARD");
  }
  if (!state.optimizer || !can_be_saved(*state.optimizer)) return;
  const std::string name = optimizer_name(*state.optimizer);
  if (needs_closure(*state.optimizer) || name == "Adafactor" || name == "SparseAdam") {
    throw UnsupportedError("parallelism_config: the optimizer " + name +
                           " needs whole weights, and each rank of a sharded model has only a "
                           "part: use one that steps each element by itself, such as AdamW");
  }
  if (!options.optimizers.is_recipe() && !state.optimizer->state().empty()) {
    throw UsageError(
        "parallelism_config: the optimizer has state of whole weights, and the model is sharded "
        "now: give a recipe, such as AdamW({.lr = ...})");
  }
}

CheckpointSaver* Trainer::Impl::reference_saver() const {
  const auto savers = savers_among(state.callbacks);
  return savers.empty() ? nullptr : savers.front();
}

// If the first process exited now, its launcher would end the others in the middle of their
// close(), such as rank 0's uploads. Does nothing after an error, since the other ranks may be
// elsewhere then.
void Trainer::Impl::leave_together() {
  if (dist::group() == nullptr || !std::exchange(ended_well, false)) return;
  dist::barrier("closing the Trainer");
}

void Trainer::Impl::bind_train_dataloader(DataSpec dataloader, const std::string& label) {
  check_loader_of_rank(dataloader, "train_dataloader");
  if (state.auto_microbatching) state.device_train_microbatch_size.reset();
  state.train_dataloader = std::move(dataloader);
  state.dataloader = &state.train_dataloader;
  state.dataloader_label = label;
  state.dataloader_len = state.train_dataloader.dataloader->num_batches();
  state.dataloader_len = least_of_ranks(state.dataloader_len);
}

void Trainer::Impl::subset_train_dataloader(std::int64_t batches) {
  const auto all = state.train_dataloader.dataloader->num_batches();
  if (all && batches > *all) {
    logger.log_message("warning: train_subset_num_batches is " + std::to_string(batches) +
                       ", and an epoch has only " + std::to_string(*all) + " batches");
  }
  state.dataloader_len = epoch_length(state.train_dataloader, batches);
  state.dataloader_len = least_of_ranks(state.dataloader_len);
}

void Trainer::Impl::set_microbatch_size(const std::optional<MicrobatchSize>& size) {
  state.auto_microbatching = size && size->is_auto();
  state.device_train_microbatch_size = size ? size->samples() : std::nullopt;
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
