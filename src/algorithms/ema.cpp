// One set of weights is in the model, the other in parameters_ and buffers_. ema_weights_active_
// says which set the model has.
//
//  1. INIT: copy the weights, so that a checkpoint can be loaded into the copies.
//  2. End of a batch or epoch: put the training weights into the model. From ema_start on, copy
//     them once, and then update the average whenever update_interval divides the count.
//  3. EVAL_START, and a checkpoint event at which a callback will save: exchange, unless the model
//     has the average. So a checkpoint's "model" holds the weights to be used.
//  4. EVAL_END and BATCH_START: exchange back.
//  5. In a run that began in Composer up to 0.10.0 a checkpoint event exchanges nothing.
//
// The exchange copies elements and does not exchange storages, since parameters may be tied, be
// views, or be parts of a flat tensor.
#include "cairn/algorithms/ema.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "algorithms/elapsed.h"
#include "algorithms/ema_migration.h"
#include "algorithms/saved_tensors.h"
#include "core/text/float_text.h"
#include "train/engine/saves_at.h"
#include "train/fused/fused_step.h"
#include "train/loop/iteration_length.h"
#include "train/state/trainable_parameters.h"

namespace cairn {
namespace {

constexpr const char* kKeepsTrained =
    "EMA: the run began in Composer up to 0.10.0, which averaged for evaluation only: checkpoints, "
    "and the model at the end, have the trained weights";

TensorsByName model_buffers(const State& state) { return named_buffers(state.model->module()); }

TensorsByName copies(TensorsByName tensors) {
  for (auto& [name, tensor] : tensors) {
    tensor = tensor.detach().clone();
  }
  return tensors;
}

// Throws UsageError unless the live tensors have the names and shapes of the copied ones, in the
// same order. The tensors differ only if the model replaced its parameters.
void check_same(const TensorsByName& live, const TensorsByName& copied) {
  bool same = live.size() == copied.size();
  for (std::size_t i = 0; same && i < live.size(); ++i) {
    same = live[i].first == copied[i].first && live[i].second.sizes() == copied[i].second.sizes();
  }
  if (!same) {
    throw UsageError(
        "EMA: the model's parameters or buffers changed since EMA copied them; freeze "
        "and replace them before the Trainer is made");
  }
}

void exchange(const TensorsByName& live, const TensorsByName& copied) {
  check_same(live, copied);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const at::Tensor in_model = live[i].second.detach().clone();
    live[i].second.copy_(copied[i].second);
    copied[i].second.copy_(in_model);
  }
}

void average(const TensorsByName& live, const TensorsByName& averaged, double smoothing) {
  check_same(live, averaged);
  const torch::NoGradGuard no_grad;
  fused::FusedStep<fused::Average> fused;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const at::Tensor& ema = averaged[i].second;
    const at::Tensor& now = live[i].second;
    if (fused::can_fuse(ema, now, {})) {
      fused.add({.smoothing = smoothing}, ema, now, {});
    } else if (ema.is_floating_point() || ema.is_complex()) {
      ema.mul_(smoothing).add_(now, 1 - smoothing);
    } else {  // counters: averaged as floats and truncated, as Composer does
      ema.copy_(ema * smoothing + now * (1 - smoothing));
    }
  }
  fused.run();
}

std::vector<std::string> names_of(const TensorsByName& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors)
    names.push_back(name);
  return names;
}

Value as_dict(const TensorsByName& tensors) {
  Dict dict;
  for (const auto& [name, tensor] : tensors) {
    dict.set(name, view_of(tensor));
  }
  return dict;
}

EMAOptions checked(EMAOptions options) {
  if (options.half_life && options.smoothing) {
    throw UsageError(
        "EMA: give half_life or smoothing, not both (to use smoothing, set half_life to "
        "nullopt)");
  }
  if (!options.half_life && !options.smoothing) {
    throw UsageError("EMA: give half_life or smoothing");
  }
  if (options.smoothing && !(*options.smoothing > 0 && *options.smoothing < 1)) {
    throw UsageError(fmt::format("EMA: smoothing must be in (0, 1), found {}", *options.smoothing));
  }
  if (!options.update_interval) {
    options.update_interval =
        Time(1, options.half_life ? options.half_life->unit() : TimeUnit::kBatch);
  }
  const Time& interval = *options.update_interval;
  if (interval.unit() != TimeUnit::kBatch && interval.unit() != TimeUnit::kEpoch) {
    throw UsageError("EMA: update_interval must be in batches or epochs, found " +
                     interval.to_string());
  }
  if (interval.value() < 1) throw UsageError("EMA: update_interval must be 1 or more");
  if (options.half_life &&
      (options.half_life->unit() != interval.unit() || options.half_life->value() < 1)) {
    throw UsageError("EMA: half_life (" + options.half_life->to_string() +
                     ") must be more than 0 and in the unit of update_interval (" +
                     interval.to_string() + ")");
  }
  return options;
}

}  // namespace

EMA::EMA(EMAOptions options) : options_(checked(options)) {
  smoothing_ = options_.smoothing
                   ? *options_.smoothing
                   : std::exp2(-options_.update_interval->number() / options_.half_life->number());
}

std::string EMA::repr() const {
  const std::string half_life =
      options_.half_life ? fmt::format("'{}'", options_.half_life->to_string()) : "None";
  const std::string smoothing =
      options_.smoothing ? python_float_repr(*options_.smoothing) : "None";
  return fmt::format("EMA(half_life={},smoothing={},ema_start='{}',update_interval='{}')",
                     half_life, smoothing, options_.ema_start.to_string(),
                     options_.update_interval->to_string());
}

bool EMA::match(Event event, const State& state) const {
  switch (event) {
    case Event::kInit:
      return true;
    case Event::kFitStart:
      return options_.ema_start.unit() == TimeUnit::kIteration || !averages_checkpoints_;
    case Event::kBatchEnd:
      return interval().unit() == TimeUnit::kBatch && (ema_started_ || should_start(state));
    case Event::kEpochEnd:
      return interval().unit() == TimeUnit::kEpoch && (ema_started_ || should_start(state));
    case Event::kBatchStart:
    case Event::kEvalStart:
    case Event::kEvalEnd:
      return ema_started_;
    case Event::kBatchCheckpoint:
    case Event::kEpochCheckpoint:
    case Event::kIterationCheckpoint:
      return ema_started_ && saves_at(event, state) && averages_checkpoints_;
    default:
      return false;
  }
}

void EMA::apply(Event event, State& state, Logger& logger) {
  switch (event) {
    case Event::kInit:
      start(state);
      break;
    case Event::kFitStart:
      require_iteration_length(state, options_.ema_start, "ema_start",
                               "there would never be an average");
      if (!averages_checkpoints_) logger.log_message(kKeepsTrained);
      break;
    case Event::kBatchEnd:
    case Event::kEpochEnd:
      activate_ema_weights(state, false);
      if (!ema_started_) start(state);
      ema_started_ = true;
      update(state);
      break;
    case Event::kBatchStart:
    case Event::kEvalEnd:
      activate_ema_weights(state, false);
      break;
    default:  // EVAL_START and the checkpoint events
      activate_ema_weights(state, true);
  }
}

Time EMA::interval() const { return *options_.update_interval; }

bool EMA::should_start(const State& state) const { return has_reached(state, options_.ema_start); }

void EMA::start(const State& state) {
  parameters_ = copies(trainable_parameters(state));
  buffers_ = copies(model_buffers(state));
}

void EMA::update(const State& state) {
  if (state.timestamp.get(interval().unit()).value() % interval().value() != 0) return;
  average(trainable_parameters(state), parameters_, smoothing_);
  average(model_buffers(state), buffers_, smoothing_);
}

void EMA::activate_ema_weights(const State& state, bool active) {
  if (ema_weights_active_ == active) return;
  exchange(trainable_parameters(state), parameters_);
  exchange(model_buffers(state), buffers_);
  ema_weights_active_ = active;
}

Value EMA::state_dict() const {
  Dict state = {{"repr", repr()},
                {"ema_model", Dict{{"named_parameters_dict", as_dict(parameters_)},
                                   {"named_buffers_dict", as_dict(buffers_)}}},
                {"ema_weights_active", ema_weights_active_},
                {"ema_started", ema_started_}};
  if (!averages_checkpoints_) state.set("averages_checkpoints", false);
  return state;
}

void EMA::load_state_dict(const Value& saved, const State& live) {
  std::vector<std::string> misfits;
  const Value state = migrated_ema_state(
      saved, {names_of(named_parameters(live.model->module())),
              names_of(trainable_parameters(live)), names_of(model_buffers(live))});
  const Value* model = state.is_dict() ? state.find("ema_model") : nullptr;
  if (model == nullptr || !model->is_dict()) {
    throw MismatchError(
        "the saved state of EMA has no \"ema_model\" in any of the layouts of Composer 0.7 and "
        "newer; "
        "load_ignore_keys = {\"state/algorithms*\"} starts it afresh");
  }
  TensorsByName parameters =
      read_tensors(model->find("named_parameters_dict"), trainable_parameters(live),
                   "named_parameters_dict", misfits);
  TensorsByName buffers = read_tensors(model->find("named_buffers_dict"), model_buffers(live),
                                       "named_buffers_dict", misfits);
  const bool active = read_flag(state, "ema_weights_active", misfits);
  const bool started = read_flag(state, "ema_started", misfits);
  throw_misfits("EMA", misfits);
  parameters_ = std::move(parameters);
  buffers_ = std::move(buffers);
  ema_weights_active_ = active;
  ema_started_ = started;
  const Value* averages = state.find("averages_checkpoints");
  averages_checkpoints_ = averages == nullptr || *averages == Value(true);
}

}  // namespace cairn
