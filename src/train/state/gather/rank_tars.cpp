// RankSaves::fill_tar(): what a rank's tar holds of a State.
//
//  1. The rank's own rows of sharded tensors, and all of what is not sharded. The rank's random
//     state, its loader's state and its metrics' state. So the tar has everything that the rank
//     needs, and nothing of other ranks.
//  2. Buffers are rank 0's, as they are before every batch. So files that are in the tars of all
//     ranks are equal, whichever tar is unpacked last.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <unordered_map>
#include <utility>

#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state.h"

#include "checkpoint/names/format_string.h"
#include "checkpoint/names/run_forms.h"
#include "checkpoint/plan/save_pipeline.h"
#include "checkpoint/ranks/save_rank_tars.h"
#include "dist/team.h"
#include "storage/place.h"
#include "train/state/checkpoint_form.h"
#include "train/state/gather/checkpoint_info.h"
#include "train/state/gather/rank_saves.h"
#include "train/state/load/module_load.h"

namespace cairn {
namespace {

deepspeed::ModelNames names_of(const torch::nn::Module& module) {
  std::unordered_map<const c10::TensorImpl*, std::string> parameters;  // By their first names.
  for (const auto& [name, tensor] : named_parameters(module))
    parameters.emplace(tensor.unsafeGetTensorImpl(), name);
  deepspeed::ModelNames names;
  for_each_named_tensor(module, [&](const std::string& prefix, const std::string& own_name,
                                    const at::Tensor& tensor) {
    const std::string name = prefix + own_name;
    const auto first = parameters.find(tensor.unsafeGetTensorImpl());
    if (first == parameters.end()) {
      names.buffers.push_back(name);
    } else if (first->second != name) {
      names.shared.emplace_back(name, first->second);
    }
  });
  return names;
}

// Step 2. Call it on all ranks together.
void take_buffers_of_rank_0(const std::vector<std::string>& names, Value& state) {
  const Team team = Team::of_job();
  if (team.is_alone() || names.empty()) return;
  Dict& model = state.mutable_dict()["model"].mutable_dict();
  Dict own;
  for (const std::string& name : names) {
    const Value* const buffer = team.is_first() ? model.find(name) : nullptr;
    if (buffer != nullptr) own.set(name, *buffer);
  }
  const Value of_rank_0 = team.broadcast_from_first(std::move(own));
  if (team.is_first()) return;
  for (const auto& [name, buffer] : of_rank_0.as_dict())
    model.set(name, buffer);
}

}  // namespace

bool saves_rank_tars(const State& state) {
  return State::CheckpointForm::of(state).deepspeed_stage.has_value();
}

void require_rank(const std::string& format) {
  const auto pieces = split_format(NameFormat(format));
  const bool has_rank = std::ranges::any_of(
      pieces, [](const FormatPiece& piece) { return piece.is_field && piece.name == "rank"; });
  if (has_rank) return;
  throw UsageError("\"" + format +
                   "\" must have {rank} for deepspeed: every rank writes a file of its own, and "
                   "they would write over each other's; call it "
                   "ep{epoch}-ba{batch}-rank{rank}.tar, say");
}

void check_rank_tars(const State& state) {
  if (*State::CheckpointForm::of(state).deepspeed_stage == 0 || !state.model) return;
  for (const auto& [name, parameter] : named_parameters(state.model->module())) {
    if (parameter.scalar_type() == at::kFloat) continue;
    throw UnsupportedError(fmt::format(
        "deepspeed_config: the parameter {} is {}, and DeepSpeed's files hold float32 weights "
        "only: train in float32, set stage 0, or take parallelism_config with state_dict_type "
        "\"sharded\"",
        name, c10::toString(parameter.scalar_type())));
  }
}

void RankSaves::fill_tar(SaveJob& job, const State& state, const SaveCheckpointOptions& what,
                         Logger* logger) {
  if (what.weights_only) {
    throw UnsupportedError(
        "deepspeed_config: checkpoints of weights alone are not written: a rank has a part of them "
        "only. Save the whole state; `cairn convert` makes a file of weights of all ranks' tars");
  }
  const std::int64_t number = std::exchange(number_, number_ + kRollCallsOfTars);
  Value entries;
  RankTarsJob tars{.path = job.path,
                   .replace = job.replace,
                   .stage = *State::CheckpointForm::of(state).deepspeed_stage,
                   .info = job.info};
  Team::of_job().run_on_all("gathering its state", [&] {
    entries = state.state_dict();
    tars.names = names_of(state.model->module());
  });
  take_buffers_of_rank_0(tars.names.buffers, entries);
  Value tree = Dict{{"state", std::move(entries)}, {"rng", List{rng_of_this_rank(state)}}};
  leave_out(tree, what.ignore_keys, dist::rank() == 0 ? logger : nullptr);
  job.value = std::move(tree);
  job.is_of_all_ranks = true;
  job.write = [table = table_, number, tars = std::move(tars)](
                  ObjectStore& store, const SaveJob& save, const std::function<void()>& point) {
    RankTarsJob now = tars;
    now.checkpoint = save.value;
    now.far = save.far;
    now.point = point;
    table->number = number;
    return save_rank_tars(*table, store, now).bytes;
  };
}

std::string save_rank_tar(const State& state, const std::string& filename,
                          const SaveCheckpointOptions& options) {
  require_rank(filename);
  check_rank_tars(state);
  SaveJob job;
  std::shared_ptr<ObjectStore> store;
  Team::of_job().run_on_all("before saving " + filename, [&] {
    job.path = strict_format(NameFormat(as_tar_format(filename)),
                             dist_variables(state.run_name) + time_variables(state.timestamp));
    job.info = checkpoint_info(state, options.weights_only);
    store = store_of(job.path, options.store);
    if (!options.store) job.path = shown_place(job.path);
  });
  job.replace = replace_if(has_counter(NameFormat(filename)));
  RankSaves().fill_tar(job, state, options, nullptr);
  try {
    return save_now(store, job).path;
  } catch (AlreadyExistsError& e) {
    e.add_context("the ranks' tars cannot all be replaced at once: put a counter into \"" +
                  filename + "\", {batch} for one, or another word");
    throw;
  }
}

}  // namespace cairn
