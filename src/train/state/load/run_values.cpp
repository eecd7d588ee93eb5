#include "train/state/load/run_values.h"

#include <fmt/format.h>

#include <type_traits>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "train/state/load/fit_calls.h"
#include "train/state/number.h"

namespace cairn {

// RunValuesLoad::apply() is noexcept, so it needs this.
static_assert(std::is_nothrow_move_assignable_v<Value> && std::is_nothrow_move_assignable_v<Dict> &&
              std::is_nothrow_copy_assignable_v<Timestamp> &&
              std::is_nothrow_move_assignable_v<std::optional<FitCalls>> &&
              std::is_nothrow_move_assignable_v<std::string>);

void RunValuesLoad::plan(const Value& saved, const State& state, LoadFindings& findings) {
  try {
    if (const Value* timestamp = saved.find("timestamp")) {
      timestamp_ = Timestamp::from_value(timestamp->at("Timestamp"));
      if (const Value* calls = timestamp->find("fit_calls")) fit_calls_ = fit_calls_from(*calls);
    } else {
      findings.warn("the checkpoint has no timestamp; training counts from " +
                    state.timestamp.get(TimeUnit::kBatch).to_string());
    }
    if (const Value* seed = saved.find("rank_zero_seed")) rank_zero_seed_ = seed->as_int();
    if (const Value* name = saved.find("run_name")) run_name_ = name->as_str();
  } catch (const Error& e) {
    findings.misfit(e.what());
  }
  if (const Dict* dataset = findings.dict_entry(saved, "dataset_state")) {
    const Value* train = dataset->find("train");
    const Value* beside = dataset->find("cairn");  // From sharded checkpoints (rank_saves.cpp).
    dataset_state_ = train == nullptr ? Value() : *train;
    if (beside != nullptr && dataset_state_->is_none()) dataset_state_ = Dict{{"cairn", *beside}};
  }
}

void RunValuesLoad::apply(State& state) noexcept {
  if (timestamp_) {
    state.timestamp = *timestamp_;
    state.fit_calls = std::move(fit_calls_);
    state.schedulers_step_after_time = steps_after_time_;
  }
  if (rank_zero_seed_) state.rank_zero_seed = *rank_zero_seed_;
  if (run_name_) state.run_name = std::move(*run_name_);
  if (dataset_state_) state.dataset_state = std::move(*dataset_state_);
}

void MetricsLoad::plan(const Value& saved, const State& state, LoadFindings& findings) {
  plan_group("train", state.train_metrics, saved.find("train_metrics"), findings);
  for (const auto& [label, metrics] : state.eval_metrics) {
    const Value* of_all = saved.find("eval_metrics");
    const bool is_dict = of_all != nullptr && of_all->is_dict();
    plan_group(label, metrics, is_dict ? of_all->find(label) : nullptr, findings);
  }
}

void MetricsLoad::plan_group(const std::string& label, const Metrics& metrics, const Value* saved,
                             LoadFindings& findings) {
  if (saved == nullptr || !saved->is_dict()) return;
  for (const auto& [key, metric] : metrics) {
    const Value* entry = saved->find(key);
    if (entry == nullptr || !entry->is_dict()) continue;
    const Value* state = entry->find("state_dict");
    if (state == nullptr) continue;
    try {
      metric->clone()->load_state_dict(*state);
    } catch (const Error& e) {
      const std::string entries = label == "train" ? "train_metrics" : "eval_metrics/" + label;
      findings.misfit(
          fmt::format("metric {}/{}: {} (load_ignore_keys = {{\"state/{}*\"}} starts it afresh)",
                      label, key, e.what(), entries));
      continue;
    }
    states_.emplace_back(metric, *state);
    const Value* computed = entry->find("_computed");
    if (computed == nullptr) continue;  // Absent if the metric was not computed.
    if (const auto number = find_number(*computed)) {
      values_.push_back({label, {key, *number}});
    } else if (computed->is_tensor()) {
      values_.push_back({label, {key, view_of(tensor_of(computed->as_tensor()))}});
    }
  }
}

void MetricsLoad::load(ObjectLoads& loads) const {
  for (const auto& [metric, saved] : states_) {
    loads.load("metric " + metric->name(), saved, *metric);
  }
}

void MetricsLoad::prepare(const State& state) {
  all_values_ = state.metric_values;
  for (const auto& [label, entry] : values_) {
    Value& values = all_values_[label];
    if (!values.is_dict()) values = Dict();
    values.mutable_dict()[entry.first] = entry.second;
  }
}

}  // namespace cairn
