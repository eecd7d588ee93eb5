// EMA: a moving average of the weights, used for evaluation and in checkpoints
// (composer/algorithms/ema).
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/time.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"

namespace cairn {

// Exactly one of half_life and smoothing; times in epochs or batches.
struct EMAOptions {
  // After which a weight counts half: some percent of the run.
  std::optional<Time> half_life = "1000ba";
  // The factor of the average at each update, in (0, 1); set half_life to nullopt with it.
  std::optional<double> smoothing = std::nullopt;
  // Leaves the first, fast part of training out of the average.
  Time ema_start = "0.0dur";
  // Default: 1 of half_life's unit, else 1ba. More saves a pass over the weights each batch.
  std::optional<Time> update_interval = std::nullopt;
};

// ema = smoothing * ema + (1 - smoothing) * weights, for every trainable parameter and every
// buffer, at the end of each update_interval. The average starts with the weights at ema_start.
//
// The model holds the averaged weights during evaluation, and from a checkpoint event at which a
// callback saves until the next batch starts: a checkpoint's "model" is the average, and the
// training weights stand in this algorithm's state. After a fit() whose last batch was saved the
// model is left with the average, as in Composer.
//
// Composer up to 0.10.0 averaged for evaluation only. A run that began there goes on so: the model
// in its checkpoints, and at its end, is the trained one, and the average is in this algorithm's
// state.
//
// Costs a second copy of parameters and buffers, in memory and in checkpoints, a pass over them at
// each update, and a copy each way around evaluations and saves.
class EMA final : public Algorithm {
 public:
  // UsageError unless one of half_life and smoothing is given, in range.
  explicit EMA(EMAOptions options = {});
  explicit EMA(EmptyBraces) : EMA(EMAOptions()) {}  // EMA({.half_life = "100ba"})
  template <detail::AnyOfNone T>
  EMA(std::initializer_list<T>) = delete;

  std::string name() const override { return "EMA"; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;

  // {"repr", "ema_model": {"named_parameters_dict", "named_buffers_dict"}, "ema_weights_active",
  // "ema_started"}. ema_model holds the set of weights that the model does not. A run that began in
  // Composer up to 0.10.0 has "averages_checkpoints": False, too.
  Value state_dict() const override;
  // Also takes the layouts of Composer 0.7 to 0.12. MismatchError, and nothing is changed, when the
  // state is not of this model.
  void load_state_dict(const Value& saved, const State& live) override;

 private:
  using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

  Time interval() const;
  bool should_start(const State& state) const;
  void start(const State& state);
  void update(const State& state);
  void activate_ema_weights(const State& state, bool active);

  EMAOptions options_;
  double smoothing_;
  // Copies of the model's trainable parameters and buffers; empty before INIT.
  NamedTensors parameters_;
  NamedTensors buffers_;
  bool ema_weights_active_ = false;
  bool ema_started_ = false;
  bool averages_checkpoints_ = true;
};

}  // namespace cairn
