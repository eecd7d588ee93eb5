#include "train/state/gather/sharded_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "cairn/byte_source.h"
#include "cairn/checkpoint/sharded.h"
#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "dist/sharding/row_gather.h"
#include "train/optimizer/parameter_names.h"
#include "train/state/load/module_load.h"

namespace cairn {
namespace {

using Shape = Dims;
// The shape of this rank's rows.
using Replace = std::function<Value(const ShardedRows& rows, const TensorView& tensor)>;

Shape own_shape(const ShardedRows& rows) {
  Shape shape = rows.global_shape;
  shape[0] = rows.count;
  return shape;
}

// A dict below `entries` that may be changed; null if there is none.
Dict* dict_at(Value* entries, const char* key) {
  if (entries == nullptr || !entries->is_dict()) return nullptr;
  Value* const found = entries->mutable_dict().find(key);
  return found == nullptr || !found->is_dict() ? nullptr : &found->mutable_dict();
}

// Replaces the tensors in one parameter's optimizer state that have `shape`, such as exp_avg, but
// not the step.
void replace_in(Dict& state, const ShardedRows& rows, const Shape& shape, const Replace& replace) {
  std::vector<Value> keys;
  for (const auto& [key, value] : std::as_const(state)) {
    if (value.is_tensor() && value.as_tensor().shape == shape) keys.push_back(key);
  }
  for (const Value& key : keys)
    state.set(key, replace(rows, state.find(key)->as_tensor()));
}

// `entries`: the result of State::state_dict(). Calls `replace` in the same order on all ranks.
void replace_own_rows(const State& state, Value& entries, const Replace& replace) {
  const ShardedModule& sharded = *state.sharding;
  const torch::nn::Module& module = state.model->module();
  std::unordered_map<const c10::TensorImpl*, Value> made;  // Keeps tied tensors tied.
  std::unordered_map<std::string, ShardedRows> by_name;
  Dict* const model = dict_at(&entries, "model");
  for_each_named_tensor(module, [&](const std::string& prefix, const std::string& own_name,
                                    const at::Tensor& tensor) {
    const auto rows = sharded.find(tensor);
    if (!rows) return;
    const std::string name = prefix + own_name;
    by_name.emplace(name, *rows);
    if (model == nullptr || model->find(name) == nullptr) return;
    Value& value = made[tensor.unsafeGetTensorImpl()];
    if (value.is_none()) value = replace(*rows, view_of(sharded.local_rows(tensor)));
    model->set(name, value);
  });
  Dict* const optimizers = dict_at(&entries, "optimizers");
  if (optimizers == nullptr || !state.optimizer) return;
  Dict* const states = dict_at(optimizers->find(optimizer_name(*state.optimizer)), "state");
  if (states == nullptr) return;
  for (const auto& [name, parameter] : named_parameters(module)) {
    const auto rows = by_name.find(name);
    Value* const of_parameter = states->find(name);
    if (rows == by_name.end() || of_parameter == nullptr || !of_parameter->is_dict()) continue;
    replace_in(of_parameter->mutable_dict(), rows->second, own_shape(rows->second), replace);
  }
}

std::uint64_t row_bytes(const ShardedRows& rows, DType dtype) {
  const Shape& shape = rows.global_shape;
  const std::int64_t elements =
      std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  return static_cast<std::uint64_t>(elements) * item_size(dtype);
}

// Replaces whole tensors with this rank's rows, all tensors together. So the pieces of the tensors
// are looked up once, and other rows are never read.
class Cuts {
 public:
  void add(const ShardedRows& rows, const TensorView& whole, Dict& in, const Value& key) {
    Shape offsets(rows.global_shape.size(), 0);
    // A rank without rows may begin after the end.
    offsets[0] = std::min(rows.begin, rows.global_shape[0]);
    parts_.push_back({.whole = whole, .offsets = std::move(offsets), .shape = own_shape(rows)});
    places_.emplace_back(&in, key);
  }
  void apply() {
    std::vector<TensorView> own = tensors_of_parts(parts_);
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i].part = nullptr;  // The rest of the load treats the rows as a complete tensor.
      places_[i].first->set(places_[i].second, std::move(own[i]));
    }
  }

 private:
  std::vector<PartOfTensor> parts_;
  std::vector<std::pair<Dict*, Value>> places_;
};

// Whether `saved` has exactly the rows `rows`.
bool is_part(const TensorView& saved, const ShardedRows& rows) {
  return saved.part != nullptr && saved.part->global_shape == rows.global_shape &&
         saved.part->offsets.front() == rows.begin && saved.shape == own_shape(rows);
}

std::string describe_misfit(const std::string& name, const TensorView& part) {
  return fmt::format(
      "model: the checkpoint has a part of {}, [{}] at [{}] of [{}], not this rank's part", name,
      fmt::join(part.shape, ", "), fmt::join(part.part->offsets, ", "),
      fmt::join(part.part->global_shape, ", "));
}

void cut_model(const State& state, Dict& model, Cuts& cuts, std::vector<std::string>& misfits) {
  for_each_named_tensor(
      state.model->module(),
      [&](const std::string& prefix, const std::string& own_name, const at::Tensor& tensor) {
        const auto rows = state.sharding->find(tensor);
        const std::string name = prefix + own_name;
        const Value* const value = rows ? model.find(name) : nullptr;
        if (value == nullptr || !value->is_tensor()) return;
        const TensorView& saved = value->as_tensor();
        if (is_part(saved, *rows)) {  // From this rank's own file.
          TensorView own = saved;
          own.part = nullptr;
          model.set(name, std::move(own));
        } else if (saved.part != nullptr) {
          misfits.push_back(describe_misfit(name, saved));
        } else if (saved.shape == rows->global_shape) {
          cuts.add(*rows, saved, model, name);
        } else {
          misfits.push_back(
              fmt::format("model: size mismatch for {}: [{}] in the checkpoint, [{}] in "
                          "the model",
                          name, fmt::join(saved.shape, ", "), fmt::join(rows->global_shape, ", ")));
        }
      });
}

// The keys of "state" are names, or positions in the groups.
void cut_optimizer(const State& state, Value& saved, Cuts& cuts) {
  Dict* const states = dict_at(&saved, "state");
  const Value* const groups = std::as_const(saved).find("param_groups");
  if (states == nullptr || groups == nullptr || !groups->is_list()) return;
  const auto cut_state = [&](const Value& key, const at::Tensor& parameter) {
    const auto rows = state.sharding->find(parameter);
    Value* const of_parameter = rows ? states->find(key) : nullptr;
    if (of_parameter == nullptr || !of_parameter->is_dict()) return;
    Dict& own = of_parameter->mutable_dict();
    for (const auto& [name, value] : std::as_const(own)) {
      const bool is_of_rows = value.is_tensor() && value.as_tensor().shape == rows->global_shape;
      if (is_of_rows) cuts.add(*rows, value.as_tensor(), own, name);
    }
  };
  const auto live = named_groups(*state.optimizer, state.model->module());
  for (std::size_t g = 0; g < live.size() && g < groups->as_items().size(); ++g) {
    const Value* const params = groups->as_items()[g].find("params");
    for (std::size_t i = 0; i < live[g].size(); ++i) {
      cut_state(live[g][i].first, live[g][i].second);
      const bool has_position = params != nullptr && params->is_list() &&
                                i < params->as_items().size() && params->as_items()[i].is_int();
      if (has_position) cut_state(params->as_items()[i], live[g][i].second);
    }
  }
}

}  // namespace

bool is_sharded(const State& state) {
  return state.sharding != nullptr && state.sharding->shard_count() > 1;
}

void mark_own_parts(const State& state, Value& entries) {
  if (!is_sharded(state)) return;
  replace_own_rows(state, entries, [](const ShardedRows& rows, TensorView view) {
    Shape offsets(rows.global_shape.size(), 0);
    offsets[0] = rows.begin;
    view.part = std::make_shared<const TensorPart>(
        TensorPart{.global_shape = rows.global_shape, .offsets = std::move(offsets)});
    return Value(std::move(view));
  });
}

WholeState::WholeState(const State& state, bool weights_only)
    : state_(state), weights_only_(weights_only) {
  if (!is_sharded(state)) return;
  gather_ =
      std::make_shared<dist::RowGather>(*dist::required_group(), state.sharding->shard_count());
  if (dist::rank() == 0) return;
  Dict own = {{"model", state_dict(state.model->module())}};
  if (!weights_only && state.optimizer) {
    own.set("optimizers", Dict{{optimizer_name(*state.optimizer),
                                optimizer_state_dict(*state.optimizer, state.model->module())}});
  }
  Value entries = std::move(own);
  complete(entries);
  gather_->serve();
}

WholeState::~WholeState() {
  if (gather_ == nullptr || dist::rank() != 0) return;
  try {
    gather_->finish();
  } catch (const std::exception&) {  // Other ranks are gone: the next collective says so.
  }
}

void WholeState::complete(Value& entries, bool at_once) {
  if (gather_ == nullptr) return;
  std::vector<ByteSource::Range> wanted;  // Filled only if at_once.
  replace_own_rows(state_, entries, [&](const ShardedRows& rows, const TensorView& own) {
    TensorView whole = own;
    whole.shape = rows.global_shape;
    whole.strides = contiguous_strides(whole.shape);
    whole.storage_offset = 0;
    const std::uint64_t row = row_bytes(rows, own.dtype);
    whole.storage =
        gather_->add({.own = own.contiguous_bytes(),
                      .rank_bytes = static_cast<std::uint64_t>(rows.per_rank) * row,
                      .all_bytes = static_cast<std::uint64_t>(rows.global_shape[0]) * row});
    if (at_once && dist::rank() == 0) {
      const auto memory = std::make_shared<std::vector<std::byte>>(whole.storage->size());
      wanted.push_back({whole.storage->source_offset(), *memory});
      whole.storage = storage_of({*memory, memory});
    }
    return Value(std::move(whole));
  });
  gather_->read(wanted);
}

std::vector<std::string> cut_to_own_rows(const State& state, Value& entries) {
  std::vector<std::string> misfits;
  if (!entries.is_dict()) return misfits;
  if (!is_sharded(state)) {
    const Value* const model = std::as_const(entries).find("model");
    if (model == nullptr || !model->is_dict()) return misfits;
    for (const auto& [name, value] : model->as_dict()) {
      if (!name.is_str() || !value.is_tensor() || value.as_tensor().part == nullptr) continue;
      misfits.push_back(describe_misfit(name.as_str(), value.as_tensor()) +
                        ". It was saved with deepspeed_config by several ranks: load it with as "
                        "many, and {rank} in load_path, or unpack the tars of all into one folder "
                        "for `cairn convert`");
      break;
    }
    return misfits;
  }
  Cuts cuts;
  if (Dict* const model = dict_at(&entries, "model")) cut_model(state, *model, cuts, misfits);
  Dict* const optimizers = state.optimizer ? dict_at(&entries, "optimizers") : nullptr;
  if (optimizers != nullptr) {
    if (Value* const saved = optimizers->find(optimizer_name(*state.optimizer))) {
      if (saved->is_dict()) cut_optimizer(state, *saved, cuts);
    }
  }
  cuts.apply();
  return misfits;
}

}  // namespace cairn
