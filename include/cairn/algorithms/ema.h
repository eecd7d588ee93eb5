// EMA: a moving average of the weights, used for evaluation and in checkpoints
// (composer/algorithms/ema).
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/time.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

// Set exactly one of half_life and smoothing. half_life and update_interval are in epochs or in
// batches, both in the same unit.
struct EMAOptions {
  // Time after which a weight's influence on the average has halved. A few percent of the run is
  // usual.
  std::optional<Time> half_life = "1000ba";
  // The factor of the average at each update, in (0, 1). Set half_life to nullopt when you set
  // this.
  std::optional<double> smoothing = std::nullopt;
  // When averaging starts. A later start leaves the fast, first part of training out of the
  // average.
  Time ema_start = "0.0dur";
  // Time between two updates. Default: 1 of half_life's unit, or 1ba without half_life. A longer
  // interval saves a pass over the weights in most batches.
  std::optional<Time> update_interval = std::nullopt;
};

// ema = smoothing * ema + (1 - smoothing) * weights, for every trainable parameter and every
// buffer, at the end of each update_interval. The average starts with the weights at ema_start.
//
// The model holds the averaged weights during evaluation. If a callback saves at a checkpoint
// event, the model also holds them from that event to the start of the next batch. So a
// checkpoint's "model" is the average, and the training weights are in this algorithm's state. If
// the last batch of a fit() was saved, the model keeps the average after fit(), as in Composer.
//
// Composer up to 0.10.0 averaged for evaluation only. A run that began in such a Composer continues
// that way: "model" in its checkpoints, and the model at its end, hold the trained weights. The
// average is in this algorithm's state.
//
// The average is a second copy of parameters and buffers, in memory and in checkpoints. Each update
// costs a pass over all of them. Each evaluation and each save costs a copy of the average into the
// model, and a copy back.
class EMA final : public Algorithm {
 public:
  // Throws UsageError unless exactly one of half_life and smoothing is given, and this one is in
  // range.
  explicit EMA(EMAOptions options = {});
  explicit EMA(EmptyBraces) : EMA(EMAOptions()) {}  // EMA({.half_life = "100ba"})
  template <detail::NeverMatches T>
  EMA(std::initializer_list<T>) = delete;

  std::string name() const override { return "EMA"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  bool may_change_batch() const override { return false; }
  void apply(Event event, State& state, Logger& logger) override;

  // {"repr", "ema_model": {"named_parameters_dict", "named_buffers_dict"}, "ema_weights_active",
  // "ema_started"}. ema_model holds the weights that the model does not hold now: the trained or
  // the averaged ones. A run that began in Composer up to 0.10.0 also has "averages_checkpoints":
  // False.
  Value state_dict() const override;
  // Also reads the layouts of Composer 0.7 to 0.12. Throws MismatchError, and changes nothing, if
  // the state is of another model.
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
