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
#include "checkpoint/open/source.h"
#include "checkpoint/open/training_info.h"
#include "checkpoint/plan/save_pipeline.h"
#include "dist/team.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "storage/place.h"
#include "train/state/checkpoint_form.h"
#include "train/state/gather/checkpoint_info.h"
#include "train/state/gather/rank_saves.h"
#include "train/state/gather/sharded_state.h"
#include "train/state/gather/state_gatherer.h"

namespace cairn {

Value rng_of_this_rank(const State& state) {
  const std::optional<Value>& pending = State::CheckpointForm::of(state).pending_rng;
  const bool has_entry = pending && !pending->as_items().empty();
  return (has_entry ? *pending : rng_states()).as_items().front();
}

Value rng_of_all_ranks(const State& state) {
  List all;
  for (const Value& own : Team::of_job().gather_all(rng_of_this_rank(state)))
    all.push_back(own);
  return all;
}

bool is_written_elsewhere() { return dist::is_initialized() && dist::rank() != 0; }

CheckpointInfo checkpoint_info(const State& state, bool weights_only) {
  if (State::CheckpointForm::of(state).content) {
    return {.run_name = state.run_name, .timestamp = state.timestamp};
  }
  return {.kind = weights_only ? "weights" : "full",
          .run_name = state.run_name,
          .timestamp = state.timestamp};
}

void leave_out(Value& checkpoint, const IgnoreKeys& keys, Logger* logger) {
  for (const std::string& pattern : keys.apply(checkpoint)) {
    if (logger != nullptr) {
      logger->log_message("warning: save_ignore_keys \"" + pattern +
                          "\" matches nothing in the checkpoint");
    }
  }
}

namespace {

const torch::nn::Module& module_of(const State& state) {
  if (!state.model) throw UsageError("a State without a model cannot be saved");
  return state.model->module();
}

struct Gathered {
  Value model = {};
  Value optimizer = {};
  Value rng = {};  // All ranks' states.
  WholeState& whole;
  bool at_once = false;  // for WholeState::complete()
};

// `model` and `optimizer` gather the state of the module and of the optimizer, which `parts` lacks.
template <class GatherModel, class GatherOptimizer>
Gathered gather(const State& state, const SaveCheckpointOptions& options, Gathered parts,
                GatherModel model, GatherOptimizer optimizer) {
  const torch::nn::Module& module = module_of(state);
  parts.model = model(module);
  const bool has_optimizer = !options.weights_only && state.optimizer;
  if (has_optimizer) parts.optimizer = optimizer(*state.optimizer, module);
  return parts;
}

Value checkpoint_of(const State& state, Gathered parts, const SaveCheckpointOptions& options,
                    Logger* logger) {
  Dict checkpoint;
  Value entries = options.weights_only
                      ? weights_state_dict(state, std::move(parts.model))
                      : full_state_dict(state, std::move(parts.model), std::move(parts.optimizer));
  parts.whole.complete(entries, parts.at_once);
  checkpoint.set("state", std::move(entries));
  if (!options.weights_only) checkpoint.set("rng", std::move(parts.rng));
  Value value = std::move(checkpoint);
  leave_out(value, options.ignore_keys, logger);
  return value;
}

}  // namespace

Value checkpoint_value(const State& state, const SaveCheckpointOptions& options, Logger* logger) {
  Value rng = options.weights_only ? Value() : rng_of_all_ranks(state);
  WholeState whole(state, options.weights_only);
  if (is_written_elsewhere())
    return Dict();  // Rank 0 needs only the two calls above from this
                    // rank.
  Gathered parts{.rng = std::move(rng), .whole = whole, .at_once = true};
  return checkpoint_of(state,
                       gather(state, options, std::move(parts), state_dict, optimizer_state_dict),
                       options, logger);
}

Value StateGatherer::checkpoint_value(const State& state, Value rng, WholeState& whole,
                                      const SaveCheckpointOptions& options, Logger* logger) {
  const auto model = [&](const torch::nn::Module& module) { return model_.gather(module); };
  const auto optimizer = [&](const torch::optim::Optimizer& of, const torch::nn::Module& module) {
    return optimizer_.gather(of, module);
  };
  Gathered parts{.rng = std::move(rng), .whole = whole};
  return checkpoint_of(state, gather(state, options, std::move(parts), model, optimizer), options,
                       logger);
}

namespace {

// Call it before weights alone are saved. Throws if `path` holds a whole state. The folder's name
// has the batch, and a saver may have saved that batch in it. A checkpoint that cannot be read now
// might be a whole state, so this is an error, too.
void refuse_to_replace_state(const std::shared_ptr<ObjectStore>& store, const std::string& path) {
  CheckpointInfo there;
  try {
    if (!store->stat(path)) return;
    there = training_info(*open_source(path, {.store = store}));
  } catch (const std::exception& e) {
    const ReadFault fault = read_fault_of(e);
    if (fault == ReadFault::kContent || fault == ReadFault::kNoFile) return;
    throw;
  }
  if (there.kind != "full") return;
  throw AlreadyExistsError(path +
                           " is a checkpoint of the whole state, and weights alone would replace "
                           "it: give save_checkpoint() a name in another folder");
}

// All ranks write the folder that takes the place of the file `path`.
std::string save_sharded(const State& state, const std::string& path,
                         const SaveCheckpointOptions& options) {
  SaveJob job;
  job.path = join_path(
      parent_path(path),
      strict_format(NameFormat(State::CheckpointForm::of(state).sharded_ckpt_prefix_dir),
                    variables_of_writer(state.run_name) + time_variables(state.timestamp)));
  const auto store = store_of(job.path, options.store);
  if (!options.store) job.path = shown_place(job.path);
  const Team team = Team::of_job();
  if (options.weights_only) {
    team.run_on_all("looking for " + job.path, [&] {
      if (!is_written_elsewhere()) refuse_to_replace_state(store, job.path);
    });
  }
  job.puts_aside = true;
  RankSaves ranks;
  team.run_on_all("gathering the state for " + job.path,
                  [&] { ranks.fill(job, state, options, nullptr); });
  return save_now(store, job).path;
}

}  // namespace

std::string save_checkpoint(const State& state, const std::string& filename,
                            const SaveCheckpointOptions& options) {
  if (saves_rank_tars(state)) return save_rank_tar(state, filename, options);
  std::string path = strict_format(
      NameFormat(filename), variables_of_writer(state.run_name) + time_variables(state.timestamp));
  if (saves_over_ranks(state)) return save_sharded(state, path, options);
  Value rng = options.weights_only ? Value() : rng_of_all_ranks(state);
  WholeState whole(state, options.weights_only);
  if (is_written_elsewhere()) return path;
  const dist::LongWork long_work;
  SaveOptions save_options;
  save_options.info = checkpoint_info(state, options.weights_only);
  save_options.store = options.store;
  Gathered parts{.rng = std::move(rng), .whole = whole};
  save(checkpoint_of(state,
                     gather(state, options, std::move(parts), state_dict, optimizer_state_dict),
                     options, nullptr),
       path, save_options);
  return path;
}

}  // namespace cairn
