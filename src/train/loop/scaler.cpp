#include "cairn/train/scaler.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>

#include "cairn/error.h"
#include "cairn/train/parameters.h"

#include "dist/group.h"

namespace cairn {
namespace {

double required_number(const Value& state, const char* key) {
  const Value* value = state.find(key);
  if (value == nullptr || (!value->is_int() && value->kind() != Kind::kFloat)) {
    throw MismatchError(fmt::format("the saved gradient scaler has no number \"{}\"", key));
  }
  return value->as_float();
}

std::int64_t required_count(const Value& state, const char* key) {
  const Value* value = state.find(key);
  if (value == nullptr || !value->is_int() || value->as_int() < 0) {
    throw MismatchError(fmt::format("the saved gradient scaler has no count \"{}\"", key));
  }
  return value->as_int();
}

void check(const GradScalerOptions& options) {
  if (!(options.init_scale > 0)) throw UsageError("GradScaler: init_scale must be more than 0");
  if (!(options.growth_factor > 1)) throw UsageError("GradScaler: growth_factor must exceed 1");
  if (!(options.backoff_factor > 0 && options.backoff_factor < 1)) {
    throw UsageError("GradScaler: backoff_factor must be between 0 and 1");
  }
  if (options.growth_interval < 1)
    throw UsageError("GradScaler: growth_interval must be 1 or more");
}

// PyTorch keeps the scale in a float32.
double as_float32(double scale) { return static_cast<float>(scale); }

}  // namespace

GradScaler::GradScaler(GradScalerOptions options)
    : options_(options), scale_(as_float32(options.init_scale)) {
  check(options);
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return options_.enabled ? loss * scale_ : loss;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled || unscaled_) return;
  const torch::NoGradGuard no_grad;
  const double inverse = 1 / scale_;
  at::Tensor finite;  // Computed on the device for all gradients, so that the host waits once.
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : unique_tensors(group.params())) {
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      const at::Tensor all = at::isfinite(gradient).all();
      finite = finite.defined() ? finite.logical_and(all.to(finite.device())) : all;
      gradient.mul_(inverse);
    }
  }
  unscaled_ = true;
  found_inf_ = finite.defined() && !finite.item<bool>();
}

void GradScaler::agree_over_ranks() {
  if (!options_.enabled) return;
  found_inf_ = dist::sum({found_inf_ ? 1.0 : 0.0}, "looking for infinite gradients")[0] > 0;
}

void GradScaler::step(torch::optim::Optimizer& optimizer) {
  unscale_(optimizer);
  if (!found_inf_) optimizer.step();
}

void GradScaler::update() {
  if (!options_.enabled) return;
  if (found_inf_) {
    scale_ = as_float32(scale_ * options_.backoff_factor);
    growth_tracker_ = 0;
  } else if (++growth_tracker_ >= options_.growth_interval) {
    const double grown = as_float32(scale_ * options_.growth_factor);
    if (std::isfinite(grown)) scale_ = grown;
    growth_tracker_ = 0;
  }
  unscaled_ = false;
  found_inf_ = false;
}

Value GradScaler::state_dict() const {
  if (!options_.enabled) return Dict();
  return Dict{{"scale", scale_},
              {"growth_factor", options_.growth_factor},
              {"backoff_factor", options_.backoff_factor},
              {"growth_interval", options_.growth_interval},
              {"_growth_tracker", growth_tracker_}};
}

// An empty state comes from a machine without a GPU. The scaler keeps its own state then.
void GradScaler::load_state_dict(const Value& state) {
  if (!state.is_dict()) {
    throw MismatchError(
        fmt::format("a gradient scaler's state is a dict, this is a {}", state.type_name()));
  }
  if (!options_.enabled || state.as_dict().empty()) return;
  const double scale = required_number(state, "scale");
  GradScalerOptions options = options_;
  options.growth_factor = required_number(state, "growth_factor");
  options.backoff_factor = required_number(state, "backoff_factor");
  options.growth_interval = required_count(state, "growth_interval");
  const std::int64_t growth_tracker = required_count(state, "_growth_tracker");
  try {
    check(options);
  } catch (const UsageError& e) {
    throw MismatchError(std::string("the saved gradient scaler cannot be: ") + e.what());
  }
  if (!(scale > 0)) throw MismatchError("the saved gradient scaler has a scale of 0 or less");
  options_ = options;
  scale_ = as_float32(scale);
  growth_tracker_ = growth_tracker;
}

}  // namespace cairn
