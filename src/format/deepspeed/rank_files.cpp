#include "format/deepspeed/rank_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "cairn/error.h"

#include "core/checked.h"
#include "format/deepspeed/gather.h"

namespace cairn::deepspeed {
namespace {

constexpr const char* kOwnKey = "cairn";  // holds entries that DeepSpeed does not have

// --- Writing -------------------------------------------------------------------------------------

// The rows of a parameter that a rank has.
struct Rows {
  Dims global_shape;
  std::int64_t begin = 0;
  std::int64_t count = 1;  // 1 for a scalar
};

Rows rows_of(const std::string& name, const TensorView& own) {
  Rows rows{.global_shape = own.shape, .count = own.shape.empty() ? 1 : own.shape.front()};
  if (own.part == nullptr) return rows;
  const auto& [global_shape, offsets] = *own.part;
  const bool is_of_rows =
      !global_shape.empty() && offsets.size() == own.shape.size() &&
      std::equal(global_shape.begin() + 1, global_shape.end(), own.shape.begin() + 1) &&
      std::all_of(offsets.begin() + 1, offsets.end(), [](std::int64_t at) { return at == 0; });
  if (!is_of_rows) {
    throw UnsupportedError("the parameter " + name +
                           " is not cut along its first dimension, and DeepSpeed's "
                           "files cannot hold such a part");
  }
  rows.global_shape = global_shape;
  rows.begin = offsets.front();
  return rows;
}

// Returns all elements as a flat tensor, without a copy if they are contiguous.
TensorView flat(const std::string& name, const TensorView& own) {
  if (own.dtype != DType::kFloat32) {
    throw UnsupportedError(fmt::format(
        "the parameter {} is {}, and DeepSpeed's files hold float32 weights only: train in "
        "float32, or save with state_dict_type \"sharded\"",
        name, cairn::name(own.dtype)));
  }
  const std::int64_t count = own.numel();
  if (!own.is_contiguous()) return make_tensor(own.dtype, {count}, own.contiguous_bytes());
  TensorView all{.dtype = own.dtype, .shape = {count}, .strides = {1}};
  all.storage_offset = own.storage_offset;
  all.storage = own.storage;
  return all;
}

const Value* dict_in(const Value& dict, std::string_view key) {
  const Value* const found = dict.is_dict() ? dict.find(key) : nullptr;
  return found == nullptr || !found->is_dict() ? nullptr : found;
}

Value counter(const Value& state, const char* which) {
  const Value* const found = find_path(state, std::string("timestamp/Timestamp/") + which);
  return found == nullptr ? Value(0) : *found;
}

Dict config_of(const RankOfSave& rank) {
  return Dict{{"zero_optimization", Dict{{"stage", rank.stage}}}};
}

// Entries that are the same in the model's files of all ranks.
Dict own_of_all(const RankOfSave& rank, const std::string& optimizer) {
  Dict own = {{"attempt", rank.attempt}, {"world_size", rank.world_size}, {"stage", rank.stage}};
  if (!optimizer.empty()) own.set("optimizer", optimizer);
  return own;
}

// Removes `part` from tensors of the optimizer's state: the "rows" of the parameters say it.
Value without_parts(const Value& value) {
  if (value.is_tensor() && value.as_tensor().part != nullptr) {
    TensorView own = value.as_tensor();
    own.part = nullptr;
    return own;
  }
  if (!value.is_dict()) return value;
  Dict left = value.as_dict().empty_like();
  for (const auto& [key, entry] : value.as_dict())
    left.set(key, without_parts(entry));
  return left;
}

// The parameters of a model, each once.
class Parameters {
 public:
  // `with_slices` says whether the stage has slices.
  Parameters(const Value& model, const ModelNames& names, bool with_slices)
      : with_slices_(with_slices) {
    for (const std::string& name : names.buffers) {
      if (model.find(name) != nullptr) buffers_.insert(name);
    }
    for (const auto& [alias, kept] : names.shared) {
      if (model.find(alias) != nullptr && model.find(kept) != nullptr) shared_.set(alias, kept);
    }
    for (const auto& [key, value] : model.as_dict()) {
      if (is_parameter(key)) add(key.as_str(), value.as_tensor());
    }
  }

  // The groups, of one parameter each.
  const List& shapes() const { return shapes_; }
  const List& slices() const { return slices_; }
  const Dict& rows() const { return rows_; }
  const Dict& shared() const { return shared_; }
  List buffer_names() const { return List(buffers_.begin(), buffers_.end()); }

  // The model's entries, with empty tensors in place of parameters.
  Value without_elements(const Value& model) const {
    const TensorView nothing = make_tensor(DType::kFloat32, {0}, {});
    Dict left = model.as_dict().empty_like();
    for (const auto& [key, value] : model.as_dict())
      left.set(key, is_weight(key) ? Value(nothing) : value);
    return left;
  }

 private:
  bool is_weight(const Value& key) const { return !buffers_.contains(key.as_str()); }
  bool is_parameter(const Value& key) const {
    return is_weight(key) && shared_.find(key) == nullptr;
  }
  void add(const std::string& name, const TensorView& own) {
    const Rows rows = rows_of(name, own);
    shapes_.emplace_back(Dict::ordered({{name, Size{rows.global_shape}}}));
    if (with_slices_) slices_.emplace_back(flat(name, own));
    rows_.set(name, List{rows.begin, rows.count});
  }

  const bool with_slices_;
  std::set<std::string> buffers_;
  Dict shared_ = Dict::ordered();
  List shapes_;
  List slices_;
  Dict rows_ = Dict::ordered();
};

Value model_states(const Value& state, const Value& model, const Parameters& parameters,
                   const RankOfSave& rank) {
  Dict states = {
      {"module", rank.stage == 0 ? model : parameters.without_elements(model)},
      {"buffer_names", parameters.buffer_names()},
      {"optimizer", None{}},
      {"param_shapes", parameters.shapes()},
      {"frozen_param_shapes", None{}},
      {"frozen_param_fragments", None{}},
      {"shared_params", parameters.shared()},
      {"lr_scheduler", None{}},
      {"data_sampler", None{}},
      {"random_ltd", None{}},
      {"sparse_tensor_module_names", List{}},
      {"skipped_steps", 0},
      {"global_steps", counter(state, "batch")},
      {"global_samples", counter(state, "sample")},
      {"dp_world_size", rank.world_size},
      {"mp_world_size", 1},
      {"ds_config", config_of(rank)},
  };
  return states;
}

Value optim_states(const Parameters& parameters, const Value& optimizer, const std::string& name,
                   const RankOfSave& rank) {
  const std::size_t groups = parameters.slices().size();
  Dict own = own_of_all(rank, name);
  own.set("rank", rank.rank);
  own.set("rows", parameters.rows());
  return Dict{
      {"optimizer_state_dict", Dict{{"loss_scaler", None{}},
                                    {"dynamic_loss_scale", false},
                                    {"overflow", false},
                                    {"clip_grad", 0.0},
                                    {"base_optimizer_state", optimizer},
                                    {"single_partition_of_fp32_groups", parameters.slices()},
                                    {"zero_stage", std::min<std::int64_t>(rank.stage, 2)},
                                    {"group_paddings", List(groups, Value(0))},
                                    {"partition_count", List(groups, Value(rank.world_size))}}},
      {"ds_config", config_of(rank)},
      {kOwnKey, std::move(own)}};
}

// --- Reading -------------------------------------------------------------------------------------

const Value& entry_of(const Value& dict, const char* key) {
  const Value* const found = dict.is_dict() ? dict.find(key) : nullptr;
  if (found == nullptr) throw CorruptError(std::string("there is no \"") + key + "\" in it");
  return *found;
}

std::int64_t int_of(const Value& dict, const char* key) {
  const Value& found = entry_of(dict, key);
  if (!found.is_int()) throw CorruptError(std::string("\"") + key + "\" is no number");
  return found.as_int();
}

const List& list_of(const Value& dict, const char* key) {
  const Value& found = entry_of(dict, key);
  if (!found.is_list()) throw CorruptError(std::string("\"") + key + "\" is no list");
  return found.as_items();
}

const std::string& as_name(const Value& value) {
  if (!value.is_str()) throw CorruptError("a name is not a text");
  return value.as_str();
}

// Returns a rank's rows of a parameter.
TensorView unflatten(const std::string& name, const TensorView& slice, const Rows& rows) {
  check_flat(slice);
  TensorView own = slice;
  own.shape = rows.global_shape;
  const std::int64_t all = rows.global_shape.empty() ? 1 : rows.global_shape.front();
  const bool is_inside =
      rows.begin >= 0 && rows.count >= 0 && rows.count <= all && rows.begin <= all - rows.count;
  const bool is_cut_scalar = rows.global_shape.empty() && rows.count != all;
  if (!is_inside || is_cut_scalar) {
    throw CorruptError("the rows of " + name + " are not within its shape");
  }
  if (!own.shape.empty()) own.shape.front() = rows.count;
  if (checked_numel(own.shape) != static_cast<std::uint64_t>(slice.shape.front())) {
    throw CorruptError(fmt::format("{} has {} elements, but its rows have {}", name,
                                   slice.shape.front(), checked_numel(own.shape)));
  }
  own.strides = contiguous_strides(own.shape);
  if (rows.count == all) return own;
  Dims offsets(own.shape.size(), 0);
  offsets.front() = rows.begin;
  own.part = std::make_shared<const TensorPart>(
      TensorPart{.global_shape = rows.global_shape, .offsets = std::move(offsets)});
  return own;
}

// Returns the rank's parameters, by name.
std::unordered_map<std::string, Value> join_parameters(const Value& model, const Value& optimizer) {
  const List& shapes = list_of(model, "param_shapes");
  const Value& of_optimizer = entry_of(optimizer, "optimizer_state_dict");
  const List& slices = list_of(of_optimizer, "single_partition_of_fp32_groups");
  const Value& all_rows = entry_of(entry_of(optimizer, kOwnKey), "rows");
  if (shapes.size() != slices.size()) {
    throw CorruptError(
        fmt::format("there are {} parameters, but slices of {}", shapes.size(), slices.size()));
  }
  std::unordered_map<std::string, Value> parameters;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (!shapes[i].is_dict() || shapes[i].as_dict().size() != 1 || !slices[i].is_tensor()) {
      throw CorruptError("a group does not have exactly one parameter");
    }
    const auto& [key, value] = *shapes[i].as_dict().begin();
    const std::string& name = as_name(key);
    const Size* const size = value.get_if<Size>();
    const List& rows = list_of(all_rows, name.c_str());
    if (size == nullptr || rows.size() != 2 || !rows[0].is_int() || !rows[1].is_int()) {
      throw CorruptError("it does not say which rows of " + name + " it has");
    }
    parameters.emplace(name, unflatten(name, slices[i].as_tensor(),
                                       {.global_shape = size->dims,
                                        .begin = rows[0].as_int(),
                                        .count = rows[1].as_int()}));
  }
  return parameters;
}

// Returns the model's state dict, in its order.
Value join_model(const Value& model, const Value& optimizer) {
  auto parameters = join_parameters(model, optimizer);
  const Value& module = entry_of(model, "module");
  const Value& shared = entry_of(model, "shared_params");
  if (!module.is_dict() || !shared.is_dict()) throw CorruptError("\"module\" is no dict");
  std::set<std::string> buffers;
  for (const Value& name : list_of(model, "buffer_names"))
    buffers.insert(as_name(name));
  Dict joined = module.as_dict().empty_like();
  for (const auto& [key, value] : module.as_dict()) {
    if (buffers.contains(as_name(key))) {
      joined.set(key, value);
      continue;
    }
    const Value* const kept = shared.as_dict().find(key);
    const auto found = parameters.find(kept == nullptr ? key.as_str() : as_name(*kept));
    if (found == parameters.end()) throw CorruptError("there is no slice of " + key.as_str());
    joined.set(key, found->second);
  }
  return joined;
}

}  // namespace

RankFiles split(const Value& checkpoint, const ModelNames& names, const RankOfSave& rank) {
  const Value& state = checkpoint.at("state");
  const Value* const model = dict_in(state, "model");
  if (model == nullptr) {
    throw UsageError("DeepSpeed's files hold a model, and this checkpoint has none (ignore_keys?)");
  }
  std::string optimizer_name;
  Value optimizer;
  const Value* const optimizers = dict_in(state, "optimizers");
  if (optimizers != nullptr && !optimizers->as_dict().empty()) {
    const auto& [key, value] = *optimizers->as_dict().begin();
    optimizer_name = key.as_str();
    optimizer = without_parts(value);
  }
  const Parameters parameters(*model, names, rank.stage > 0);
  RankFiles files{.model = model_states(state, *model, parameters, rank)};
  files.model.mutable_dict().set(kOwnKey, own_of_all(rank, optimizer_name));
  if (rank.stage == 0) {
    files.model.mutable_dict().set("optimizer", optimizer);
  } else {
    files.optimizer = optim_states(parameters, optimizer, optimizer_name, rank);
  }
  Dict others;
  for (const auto& [key, value] : state.as_dict()) {
    if (key != Value("model") && key != Value("optimizers")) others.set(key, value);
  }
  files.composer = checkpoint;
  files.composer.mutable_dict().set("state", std::move(others));
  return files;
}

Value join(const RankFiles& files) {
  const RankOfSave of_model = rank_of(files.model);
  const bool has_partition = of_model.stage > 0;
  if (has_partition) {
    const RankOfSave of_optimizer = rank_of(files.optimizer);
    if (of_optimizer.attempt != of_model.attempt) {
      throw CorruptError("its files are of different saves: " + of_model.attempt + " and " +
                         of_optimizer.attempt);
    }
  }
  Dict state;
  state.set("model", has_partition ? join_model(files.model, files.optimizer)
                                   : entry_of(files.model, "module"));
  if (const Value* const name = entry_of(files.model, kOwnKey).find("optimizer")) {
    const Value& optimizer =
        has_partition
            ? entry_of(entry_of(files.optimizer, "optimizer_state_dict"), "base_optimizer_state")
            : entry_of(files.model, "optimizer");
    state.set("optimizers", Dict{{as_name(*name), optimizer}});
  }
  const Value& others = entry_of(files.composer, "state");
  if (!others.is_dict()) throw CorruptError("\"state\" is no dict");
  for (const auto& [key, value] : others.as_dict())
    state.set(key, value);
  Value checkpoint = files.composer;
  checkpoint.mutable_dict().set("state", std::move(state));
  return checkpoint;
}

bool has_rank(const Value& file) { return dict_in(file, kOwnKey) != nullptr; }

RankOfSave rank_of(const Value& file) {
  const Value& own = entry_of(file, kOwnKey);
  RankOfSave rank{.world_size = int_of(own, "world_size"),
                  .stage = int_of(own, "stage"),
                  .attempt = as_name(entry_of(own, "attempt"))};
  if (own.find("rank") != nullptr) rank.rank = int_of(own, "rank");
  if (rank.world_size < 1 || rank.rank < 0 || rank.rank >= rank.world_size || rank.stage < 0) {
    throw CorruptError(
        fmt::format("it says that it is of rank {} of {} and stage {}, which cannot be", rank.rank,
                    rank.world_size, rank.stage));
  }
  return rank;
}

}  // namespace cairn::deepspeed
