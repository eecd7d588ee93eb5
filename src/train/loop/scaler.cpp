#include "cairn/train/scaler.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cairn/error.h"
#include "cairn/train/parameters.h"

#include "dist/group.h"
#include "train/fused/fused_step.h"
#include "train/fused/skipped_steps.h"

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

constexpr const char* kUnscaleList = "aten::_amp_foreach_non_finite_check_and_unscale_";
constexpr const char* kUpdateScale = "aten::_amp_update_scale_";

// Whether an operator unscales the gradient together with others, on a device.
bool fits_list(const at::Tensor& gradient) {
  return !gradient.is_cpu() && fused::can_fuse(gradient, {}, {}) &&
         fused::has_kernel(kUnscaleList, gradient.device());
}

bool is_on_device(const at::Tensor& number) { return number.defined() && !number.is_cpu(); }

// Replaces a number on a device, for which it waits, by a copy on the CPU.
bool read_found_inf(at::Tensor& found_inf) {
  if (is_on_device(found_inf)) found_inf = found_inf.cpu();
  return found_inf.defined() && found_inf.item<bool>();
}

// Divides gradients by a scale, and finds out whether all their elements were finite.
class Unscaling {
 public:
  // A scale on a device is for gradients there that fits_list().
  explicit Unscaling(const at::Tensor& scale) : step_{.found_inf = &on_host_} {
    if (scale.is_cpu()) {
      step_.factor = 1 / scale.item<double>();
    } else {
      device_factor_ = scale.reciprocal();
    }
  }
  Unscaling(const Unscaling&) = delete;
  Unscaling& operator=(const Unscaling&) = delete;

  void add(const at::Tensor& gradient) {
    if (fits_list(gradient)) {
      on_devices_.add(step_, gradient, {}, {});
    } else if (gradient.is_cpu() && fused::can_fuse(gradient, {}, {})) {
      on_cpu_.add(step_, gradient, {}, {});
    } else {
      note(at::isfinite(gradient).all().logical_not().to(at::kFloat));
      gradient.mul_(step_.factor);
    }
  }
  // Returns found_inf, on the device of a gradient, or on the CPU.
  at::Tensor run() {
    on_cpu_.run();
    on_devices_.for_each([this](const auto& list) { unscale(list.parameters); });
    return on_host_ ? at::ones({}) : found_inf_;
  }

 private:
  void unscale(const std::vector<at::Tensor>& gradients) {
    const at::TensorOptions options = gradients.front().options().dtype(at::kFloat);
    at::Tensor found = at::zeros({}, options);
    at::_amp_foreach_non_finite_check_and_unscale_(
        gradients, found,
        device_factor_.defined() ? device_factor_ : at::full({}, step_.factor, options));
    note(found);
  }
  void note(const at::Tensor& found) {
    found_inf_ =
        found_inf_.defined() ? at::maximum(found_inf_, found.to(found_inf_.device())) : found;
  }

  bool on_host_ = false;
  fused::Unscale step_;
  fused::CpuStep<fused::Unscale> on_cpu_;
  fused::ListStep<fused::Unscale> on_devices_;
  at::Tensor device_factor_;
  at::Tensor found_inf_;
};

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options) {
  check(options);
  set(options.init_scale, 0);
}

// PyTorch keeps the scale in a float32, too.
void GradScaler::set(double scale, std::int64_t growth_tracker) {
  scale_ = at::full({}, static_cast<float>(scale), at::kFloat);
  growth_tracker_ = at::full({}, growth_tracker, at::kLong);
}

double GradScaler::get_scale() const { return scale_.item<double>(); }

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  if (!options_.enabled) return loss;
  if (scale_.device() != loss.device() || loss.is_cpu()) return loss * get_scale();
  return (loss * scale_).to(loss.scalar_type());
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled || unscaled_) return;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : unique_tensors(group.params())) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
  }
  const bool fit_scale = std::ranges::all_of(gradients, [this](const at::Tensor& gradient) {
    return gradient.device() == scale_.device() && fits_list(gradient);
  });
  if (!fit_scale) scale_ = scale_.cpu();
  Unscaling unscaling(scale_);
  for (const at::Tensor& gradient : gradients)
    unscaling.add(gradient);
  unscaled_ = true;
  found_inf_ = unscaling.run();
  if (is_on_device(found_inf_) && !fused::has_kernel(kUpdateScale, found_inf_.device()))
    read_found_inf(found_inf_);
}

void GradScaler::agree_over_ranks() {
  if (!options_.enabled) return;
  const double found = read_found_inf(found_inf_) ? 1 : 0;
  found_inf_ = at::full({}, dist::sum({found}, "looking for infinite gradients")[0]);
}

void GradScaler::step(torch::optim::Optimizer& optimizer) {
  unscale_(optimizer);
  auto* const skipping = dynamic_cast<SkippingOptimizer*>(&optimizer);
  const bool is_done =
      skipping != nullptr && is_on_device(found_inf_) && skipping->step_unless(found_inf_);
  if (!is_done && !read_found_inf(found_inf_)) optimizer.step();
}

void GradScaler::update() {
  if (!options_.enabled) return;
  is_on_device(found_inf_) ? update_on_device() : update_on_host();
  unscaled_ = false;
  found_inf_.reset();
}

void GradScaler::update_on_host() {
  const double scale = get_scale();
  const auto finite_steps = growth_tracker_.item<std::int64_t>() + 1;
  if (read_found_inf(found_inf_)) {
    set(scale * options_.backoff_factor, 0);
  } else if (finite_steps < options_.growth_interval) {
    set(scale, finite_steps);
  } else {
    const auto grown = static_cast<float>(scale * options_.growth_factor);
    set(std::isfinite(grown) ? grown : scale, 0);
  }
}

// Makes new tensors, because the graph of a scaled loss has the old scale.
void GradScaler::update_on_device() {
  const at::TensorOptions options = found_inf_.options();
  if (scale_.is_cpu()) {
    // The operator grows the scale at the interval itself, not beyond it.
    const auto finite_steps =
        std::min(growth_tracker_.item<std::int64_t>(), options_.growth_interval - 1);
    scale_ = at::full({}, get_scale(), options);
    growth_tracker_ = at::full({}, finite_steps, options.dtype(at::kInt));
  } else {
    scale_ = scale_.clone();
    growth_tracker_ = growth_tracker_.clone();
  }
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, options_.growth_factor,
                         options_.backoff_factor, options_.growth_interval);
}

Value GradScaler::state_dict() const {
  if (!options_.enabled) return Dict();
  return Dict{{"scale", get_scale()},
              {"growth_factor", options_.growth_factor},
              {"backoff_factor", options_.backoff_factor},
              {"growth_interval", options_.growth_interval},
              {"_growth_tracker", growth_tracker_.item<std::int64_t>()}};
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
  set(scale, growth_tracker);
}

}  // namespace cairn
