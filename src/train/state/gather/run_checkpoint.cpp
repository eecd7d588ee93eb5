#include "train/state/gather/run_checkpoint.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/state.h"

#include "train/state/gather/entry_names.h"
#include "value/value_path.h"

namespace cairn {
namespace {

// The parts that training needs to continue.
constexpr std::array<std::string_view, 11> kRunParts = {
    "optimizers", "schedulers",     "algorithms",    "callbacks",     "scaler",      "timestamp",
    "run_name",   "rank_zero_seed", "dataset_state", "train_metrics", "eval_metrics"};
// Entries that are never loaded: they describe how cairn, or any version of Composer, saved.
constexpr std::array<std::string_view, 11> kDescriptions = {
    "integrations", "metadata",           "is_model_ddp",      "current_metrics",
    "grad_accum",   "fsdp_enabled",       "deepspeed_enabled", "fsdp_state_dict_type",
    "precision",    "auto_microbatching", "dataset_resumption"};

bool is_one_of(const Value& key, const auto& names) {
  return key.is_str() && std::ranges::find(names, key.as_str()) != names.end();
}

bool is_empty(const Value& value) {
  return value.is_none() || (value.is_dict() && value.as_dict().empty());
}

// Adds the entries of a part that have the name of no live object.
void add_unused(const Value& saved, const std::string& part, const std::set<std::string>& names,
                std::vector<std::string>& unused) {
  const Value* const entries = saved.find(part);
  if (entries == nullptr || !entries->is_dict()) return;
  for (const auto& [key, entry] : entries->as_dict()) {
    if (is_empty(entry) || (key.is_str() && names.contains(key.as_str()))) continue;
    unused.push_back("state/" + part + "/" + key_text(key));
  }
}

// Includes the names of classes: Composer keeps one entry for all objects of a class.
std::set<std::string> names_of(const auto& objects) {
  std::vector<std::string> names;
  for (const auto& object : objects) {
    names.push_back(object->name());
  }
  const std::vector<std::string> entries = entry_names(names);
  std::set<std::string> all(entries.begin(), entries.end());
  all.insert(names.begin(), names.end());
  return all;
}

// The place of each weight: its storage, and the offset there. Empty for a value that is not a
// tensor.
using WeightPlace = std::pair<const Storage*, std::int64_t>;

std::map<std::string, WeightPlace> weights_of(const Value& checkpoint) {
  std::map<std::string, WeightPlace> weights;
  const Value* model = find_path(checkpoint, "state/model");
  if (model == nullptr || !model->is_dict()) return weights;
  for (const auto& [key, value] : model->as_dict()) {
    if (!key.is_str()) continue;
    weights[key.as_str()] = value.is_tensor() ? WeightPlace(value.as_tensor().storage.get(),
                                                            value.as_tensor().storage_offset)
                                              : WeightPlace();
  }
  return weights;
}

}  // namespace

std::string why_no_run(const Value& checkpoint) {
  const Value* const found = checkpoint.is_dict() ? checkpoint.find("state") : nullptr;
  if (found == nullptr) return "it has no \"state\"";
  if (!found->is_dict()) return "its \"state\" is a " + std::string(found->type_name());
  for (const char* name : {"model", "_model"}) {  // "_model" is from Composer before 0.4.1.
    if (found->find(name) != nullptr) return {};
  }
  std::string why = "its \"state\" has no \"model\"";
  if (checkpoint.find("param_groups") != nullptr) why += ", it is the state_dict() of an optimizer";
  return why;
}

void require_run(const Value& checkpoint, const std::string& why) {
  if (why_no_run(checkpoint).empty()) return;
  throw MismatchError("it is not a checkpoint of a Trainer: " + why +
                      ". load() and load_state_dict() read other files");
}

std::set<std::string> names_left_out(const Value& before, const Value& after) {
  const auto weights_before = weights_of(before);
  const auto weights_after = weights_of(after);
  std::set<WeightPlace> renamed;
  for (const auto& [name, weight] : weights_after) {
    if (!weights_before.contains(name)) renamed.insert(weight);
  }
  std::set<std::string> names;
  for (const auto& [name, weight] : weights_before) {
    if (!weights_after.contains(name) && !renamed.contains(weight)) names.insert(name);
  }
  return names;
}

bool holds_only_weights(const Value& saved) {
  return std::ranges::none_of(saved.as_dict(),
                              [](const auto& entry) { return is_one_of(entry.first, kRunParts); });
}

std::vector<std::string> unused_parts(const State& state, const Value& saved,
                                      const Value& checkpoint) {
  std::vector<std::string> unused;
  std::set<std::string> optimizers;
  if (state.optimizer) optimizers.insert(optimizer_name(*state.optimizer));
  add_unused(saved, "optimizers", optimizers, unused);
  add_unused(saved, "schedulers", names_of(state.schedulers), unused);
  add_unused(saved, "callbacks", names_of(state.callbacks), unused);
  for (const auto& [key, entry] : saved.as_dict()) {
    const bool is_known = key == Value("model") || is_one_of(key, kRunParts) ||
                          is_one_of(key, kDescriptions) || is_empty(entry);
    if (!is_known) unused.push_back("state/" + key_text(key));
  }
  for (const auto& [key, entry] : checkpoint.as_dict()) {
    const bool is_known = key == Value("state") || key == Value("rng") || is_empty(entry);
    if (!is_known) unused.push_back(key_text(key));
  }
  return unused;
}

}  // namespace cairn
