#include "cairn/train/state.h"

#include "cairn/train/scaler.h"

#include "train/state/checkpoint_form.h"

namespace cairn {

State::State() : checkpoint_form_(std::make_unique<CheckpointForm>()) {}
State::~State() = default;

void State::stop_training() {
  // An epoch is counted only when it ends. The number of batches gives the exact position of the
  // run now.
  const bool counts_epochs = !max_duration || max_duration->unit() == TimeUnit::kEpoch;
  max_duration =
      counts_epochs ? Time::batches(timestamp.batch) : timestamp.get(max_duration->unit());
}

std::optional<Time> State::get_elapsed_duration() const {
  if (!max_duration) return std::nullopt;
  return timestamp.get(max_duration->unit()) / *max_duration;
}

std::optional<double> State::metric_value(const std::string& label,
                                          const std::string& metric) const {
  const Value* metrics = metric_values.find(label);
  const Value* value = metrics == nullptr ? nullptr : metrics->find(metric);
  const bool is_number = value != nullptr && !value->is_tensor();
  return is_number ? std::optional(value->as_float()) : std::nullopt;
}

}  // namespace cairn
