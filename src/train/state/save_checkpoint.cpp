#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/model.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/rng.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/names/launch.h"
#include "train/state/checkpoint_info.h"
#include "train/state/state_gatherer.h"

namespace cairn {

Value rng_of_all_ranks() {
  if (!dist::is_initialized() || dist::world_size() == 1) return rng_states();
  List all;
  for (const Value& own : dist::all_gather_values(rng_states()))
    all.push_back(own.as_items().at(0));
  return all;
}

bool is_written_elsewhere() { return dist::is_initialized() && dist::rank() != 0; }

CheckpointInfo checkpoint_info(const State& state, bool weights_only) {
  return {.kind = weights_only ? "weights" : "full",
          .run_name = state.run_name,
          .timestamp = state.timestamp};
}

namespace {

const torch::nn::Module& module_of(const State& state) {
  if (!state.model) throw UsageError("a State without a model cannot be saved");
  return state.model->module();
}

// `model` and `optimizer` gather those of the state. `rng` is of all ranks.
template <class GatherModel, class GatherOptimizer>
Dict entries_of(const State& state, const SaveCheckpointOptions& options, GatherModel model,
                GatherOptimizer optimizer, Value rng) {
  const torch::nn::Module& module = module_of(state);
  if (options.weights_only) return {{"state", weights_state_dict(state, model(module))}};
  Value weights = model(module);
  Value of_optimizer = state.optimizer ? optimizer(*state.optimizer, module) : Value();
  return {{"state", full_state_dict(state, std::move(weights), std::move(of_optimizer))},
          {"rng", std::move(rng)}};
}

Value without_ignored(Dict checkpoint, const SaveCheckpointOptions& options, Logger* logger) {
  Value value = std::move(checkpoint);
  for (const std::string& pattern : options.ignore_keys.apply(value)) {
    if (logger != nullptr) {
      logger->log_message("warning: save_ignore_keys \"" + pattern +
                          "\" matches nothing in the checkpoint");
    }
  }
  return value;
}

}  // namespace

Value checkpoint_value(const State& state, const SaveCheckpointOptions& options, Logger* logger) {
  Value rng = options.weights_only ? Value() : rng_of_all_ranks();
  if (is_written_elsewhere()) return Dict();  // rank 0 needs nothing but this of it
  return without_ignored(
      entries_of(state, options, state_dict, optimizer_state_dict, std::move(rng)), options,
      logger);
}

Value StateGatherer::checkpoint_value(const State& state, Value rng,
                                      const SaveCheckpointOptions& options, Logger* logger) {
  const auto model = [&](const torch::nn::Module& module) { return model_.gather(module); };
  const auto optimizer = [&](const torch::optim::Optimizer& of, const torch::nn::Module& module) {
    return optimizer_.gather(of, module);
  };
  return without_ignored(entries_of(state, options, model, optimizer, std::move(rng)), options,
                         logger);
}

std::string save_checkpoint(const State& state, const std::string& filename,
                            const SaveCheckpointOptions& options) {
  std::string path = strict_format(
      filename, variables_of_writer(state.run_name) + time_variables(state.timestamp));
  if (is_written_elsewhere()) {
    checkpoint_value(state, options);
    return path;
  }
  SaveOptions save_options;
  save_options.info = checkpoint_info(state, options.weights_only);
  save_options.store = options.store;
  save(checkpoint_value(state, options), path, save_options);
  return path;
}

}  // namespace cairn
