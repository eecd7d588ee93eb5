#include "cairn/train/scaler.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>

#include "cairn/error.h"
#include "cairn/train/parameters.h"

#include "dist/group.h"
#include "train/fused/fused_step.h"

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

constexpr const char* kUnscaleList = "aten::_amp_foreach_non_finite_check_and_unscale_";

// Multiplies gradients by a factor, and finds out whether all their elements were finite.
class Unscaling {
 public:
  explicit Unscaling(double factor) : step_{.factor = factor, .found_inf = &found_inf_} {}
  Unscaling(const Unscaling&) = delete;
  Unscaling& operator=(const Unscaling&) = delete;

  void add(const at::Tensor& gradient) {
    const bool fuses = fused::can_fuse(gradient, {}, {});
    if (fuses && gradient.is_cpu()) {
      on_cpu_.add(step_, gradient, {}, {});
    } else if (fuses && fused::has_kernel(kUnscaleList, gradient.device())) {
      on_devices_.add(step_, gradient, {}, {});
    } else {
      note(at::isfinite(gradient).all());
      gradient.mul_(step_.factor);
    }
  }
  // Returns whether an element was infinite or NaN. Waits for the device once.
  bool run() {
    on_cpu_.run();
    on_devices_.for_each([this](const auto& list) { unscale(list.parameters); });
    return found_inf_ || (finite_.defined() && !finite_.item<bool>());
  }

 private:
  void unscale(const std::vector<at::Tensor>& gradients) {
    const at::TensorOptions options = gradients.front().options().dtype(at::kFloat);
    at::Tensor found = at::zeros({1}, options);
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found,
                                                   at::full({1}, step_.factor, options));
    note((found == 0).all());
  }
  void note(const at::Tensor& finite) {
    finite_ = finite_.defined() ? finite_.logical_and(finite.to(finite_.device())) : finite;
  }

  bool found_inf_ = false;
  fused::Unscale step_;
  fused::CpuStep<fused::Unscale> on_cpu_;
  fused::ListStep<fused::Unscale> on_devices_;
  at::Tensor finite_;  // one flag on a device
};

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
  Unscaling unscaling(1 / scale_);
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : unique_tensors(group.params())) {
      if (parameter.grad().defined()) unscaling.add(parameter.grad());
    }
  }
  unscaled_ = true;
  found_inf_ = unscaling.run();
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
