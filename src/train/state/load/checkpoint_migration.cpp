#include "train/state/load/checkpoint_migration.h"

namespace cairn {
namespace {

void strip_underscores(Value& state) {
  Dict renamed;
  for (const auto& [key, value] : state.as_dict()) {
    const bool is_old = key.is_str() && key.as_str().starts_with('_');
    std::string name = is_old ? key.as_str().substr(1) : "";
    if (name == "is_model_ddp_wrapped") name = "is_model_ddp";
    renamed.set(is_old ? Value(name) : key, value);
  }
  state = std::move(renamed);
}

void strip_ddp_prefix(Value& state) {
  static constexpr std::string_view kPrefix = "module.";
  const Value* flag = state.find("is_model_ddp");
  const Value* model = state.find("model");
  const bool is_wrapped = flag != nullptr && *flag == Value(true);
  if (!is_wrapped || model == nullptr || !model->is_dict()) return;
  Dict renamed = Dict::ordered();
  for (const auto& [key, value] : model->as_dict()) {
    const bool has_prefix = key.is_str() && key.as_str().starts_with(kPrefix);
    renamed.set(has_prefix ? Value(key.as_str().substr(kPrefix.size())) : key, value);
  }
  state.mutable_dict()["model"] = std::move(renamed);
}

void list_algorithms(Value& state) {
  const Value* algorithms = state.find("algorithms");
  if (algorithms == nullptr || !algorithms->is_dict()) return;
  List pairs;
  for (const auto& [name, entry] : algorithms->as_dict()) {
    pairs.emplace_back(Tuple{{name, entry}});
  }
  state.mutable_dict()["algorithms"] = std::move(pairs);
}

// Adds the counters of iterations: one iteration that has not ended, which includes everything
// counted so far.
void count_iterations(Value& state) {
  const Value* timestamp = find_path(state, "timestamp/Timestamp");
  if (timestamp == nullptr || !timestamp->is_dict() || timestamp->find("iteration") != nullptr) {
    return;
  }
  const Value* epoch = timestamp->find("epoch");
  const Value* token = timestamp->find("token");
  Value counted = *timestamp;
  if (epoch != nullptr) counted.mutable_dict()["epoch_in_iteration"] = *epoch;
  if (token != nullptr) counted.mutable_dict()["token_in_iteration"] = *token;
  state.mutable_dict()["timestamp"].mutable_dict()["Timestamp"] = std::move(counted);
}

}  // namespace

void migrate_state(Value& state) {
  if (!state.is_dict()) return;
  strip_underscores(state);
  strip_ddp_prefix(state);
  list_algorithms(state);
  count_iterations(state);
}

}  // namespace cairn
