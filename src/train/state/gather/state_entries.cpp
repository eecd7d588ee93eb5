// State::state_dict(): the content of a checkpoint, key for key as Composer writes it.
#include <torch/torch.h>

#include <cmath>

#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/scaler.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "train/state/gather/checkpoint_metadata.h"
#include "train/state/gather/entry_names.h"
#include "train/state/gather/sharded_state.h"
#include "train/state/gather/state_gatherer.h"
#include "train/state/load/fit_calls.h"
#include "train/state/load/old_schedules.h"

namespace cairn {
namespace {

// Entries of live objects by class name, see entry_names().
template <class Objects>
Value entries_by_name(const Objects& objects) {
  std::vector<std::string> names;
  names.reserve(objects.size());
  for (const auto& object : objects) {
    names.push_back(object->name());
  }
  names = entry_names(names);
  Dict entries;
  for (std::size_t i = 0; i < names.size(); ++i) {
    entries.set(names[i], objects[i]->state_dict());
  }
  return entries;
}

Value algorithm_entries(const State& state) {
  List entries;
  for (const auto& algorithm : state.algorithms) {
    entries.emplace_back(Tuple{{algorithm->name(), algorithm->state_dict()}});
  }
  return entries;
}

// Composer's reader on CUDA refuses the empty state of a disabled scaler. Without CUDA, Composer's
// reader ignores a full state. So all five entries are always written.
Value scaler_entry(const GradScaler& scaler) {
  const Value state = scaler.state_dict();
  if (!state.as_dict().empty()) return Dict{{scaler.name(), state}};
  GradScalerOptions enabled;
  enabled.enabled = true;
  return Dict{{scaler.name(), GradScaler(enabled).state_dict()}};
}

// A float32, as torchmetrics computes. A float64 for a number that no float32 holds.
Value computed_tensor(double number) {
  const bool is_float = std::isnan(number) || static_cast<float>(number) == number;
  return view_of(torch::tensor(number, is_float ? at::kFloat : at::kDouble));
}

Value metric_entries(const Metrics& metrics, const Value* computed) {
  Dict entries;
  for (const auto& [key, metric] : metrics) {
    const Value* number = computed == nullptr ? nullptr : computed->find(key);
    Value value = None{};
    if (number != nullptr) {
      value = number->is_tensor() ? *number : computed_tensor(number->as_float());
    }
    entries.set(key, Dict{{"state_dict", metric->state_dict()}, {"_computed", value}});
  }
  return entries;
}

void add_metrics(const State& state, Dict& entries) {
  entries.set("train_metrics",
              metric_entries(state.train_metrics, state.metric_values.find("train")));
  Dict evaluators;
  for (const auto& [label, metrics] : state.eval_metrics) {
    evaluators.set(label, metric_entries(metrics, state.metric_values.find(label)));
  }
  entries.set("eval_metrics", std::move(evaluators));
}

}  // namespace

Value full_state_dict(const State& state, Value model, Value optimizer) {
  Dict entries = {{"model", std::move(model)}};
  if (state.optimizer) {
    entries.set("optimizers", Dict{{optimizer_name(*state.optimizer), std::move(optimizer)}});
  }
  entries.set("schedulers", entries_by_name(state.schedulers));
  entries.set("algorithms", algorithm_entries(state));
  entries.set("callbacks", entries_by_name(state.callbacks));
  if (state.scaler) entries.set("scaler", scaler_entry(*state.scaler));
  Dict time = {{"Timestamp", state.timestamp.state_dict()}};
  if (auto calls = fit_calls_value(state)) time.set("fit_calls", std::move(*calls));
  if (state.schedulers_step_after_time) time.set(kStepAfterTime, true);
  entries.set("timestamp", std::move(time));
  entries.set("rank_zero_seed", state.rank_zero_seed);
  if (state.save_metrics) add_metrics(state, entries);
  entries.set("run_name", state.run_name);
  entries.set("dataset_state", Dict{{"train", state.dataset_state}, {"eval", Dict()}});
  entries.set("integrations", Dict());
  entries.set("metadata", checkpoint_metadata(state));
  return entries;
}

Value weights_state_dict(const State& state, Value model) {
  return Dict{{"model", std::move(model)},
              {"integrations", Dict()},
              {"metadata", checkpoint_metadata(state)}};
}

Value State::state_dict() const {
  if (!model) throw UsageError("a State without a model cannot be saved");
  Value of_optimizer;
  if (optimizer) of_optimizer = optimizer_state_dict(*optimizer, model->module());
  Value entries =
      full_state_dict(*this, cairn::state_dict(model->module()), std::move(of_optimizer));
  mark_own_parts(*this, entries);
  return entries;
}

Value State::model_state_dict() const {
  if (!model) throw UsageError("a State without a model cannot be saved");
  Value entries = weights_state_dict(*this, cairn::state_dict(model->module()));
  mark_own_parts(*this, entries);
  return entries;
}

}  // namespace cairn
