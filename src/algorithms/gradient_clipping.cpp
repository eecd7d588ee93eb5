#include "cairn/algorithms/gradient_clipping.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state.h"

#include "core/text/float_text.h"
#include "train/fused/fused_step.h"
#include "train/optimizer/l2_norm.h"

namespace cairn {
namespace {

// The L2 norm of each unit of a weight or its gradient, with dimensions kept for broadcasting. A
// unit is the whole vector, a row of a matrix, or a filter of a convolution.
at::Tensor unit_norms(const at::Tensor& tensor) {
  if (tensor.dim() <= 1) return tensor.norm();
  std::vector<std::int64_t> dims;
  for (std::int64_t i = 1; i < tensor.dim(); ++i) {
    dims.push_back(i);
  }
  return tensor.norm(2, dims, /*keepdim=*/true);
}

// The factors that clip units to `threshold` times the norms of their weights.
at::Tensor adaptive_factors(const at::Tensor& weight_norms, const at::Tensor& gradient_norms,
                            double threshold) {
  const at::Tensor factors = weight_norms * threshold / gradient_norms;
  return factors.nan_to_num_(/*nan=*/1.0).clamp_max_(1.0);
}

// Weights of one device and type, all units of which have as many elements.
struct UnitList {
  std::vector<at::Tensor> weights = {};
  std::vector<at::Tensor> gradients = {};
  std::int64_t elements = 0;
};
constexpr std::int64_t kMostElements = std::int64_t{1} << 26;  // of a list, unless one has more

// Calls as many operators for many weights as for one. Meanwhile it has copies of all of them.
void clip_adaptive(const UnitList& list, std::int64_t unit_size, double threshold) {
  const auto norms = [unit_size](const std::vector<at::Tensor>& tensors) {
    const at::Tensor units = at::flatten_dense_tensors(tensors).view({-1, unit_size});
    return units.norm(2, {1}, /*keepdim=*/true);
  };
  const at::Tensor factors =
      adaptive_factors(norms(list.weights), norms(list.gradients), threshold);
  const at::Tensor of_elements = factors.expand({-1, unit_size}).reshape({-1});
  at::_foreach_mul_(list.gradients, at::unflatten_dense_tensors(of_elements, list.gradients));
}

void clip_adaptive(const std::vector<at::Tensor>& parameters, double threshold) {
  using Kind = std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType, std::int64_t>;
  std::map<Kind, UnitList> lists;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const bool is_listed = !parameter.is_cpu() && parameter.numel() != 0 &&
                           parameter.is_contiguous() && fused::can_fuse(parameter, gradient, {});
    if (!is_listed) {
      gradient.mul_(adaptive_factors(unit_norms(parameter), unit_norms(gradient), threshold));
      continue;
    }
    const c10::Device device = parameter.device();
    const std::int64_t units = parameter.dim() <= 1 ? 1 : parameter.size(0);
    UnitList& list =
        lists[{device.type(), device.index(), parameter.scalar_type(), parameter.numel() / units}];
    if (list.elements > 0 && list.elements + parameter.numel() > kMostElements) {
      clip_adaptive(list, parameter.numel() / units, threshold);
      list = UnitList();
    }
    list.weights.push_back(parameter);
    list.gradients.push_back(gradient);
    list.elements += parameter.numel();
  }
  for (const auto& [kind, list] : lists)
    clip_adaptive(list, std::get<std::int64_t>(kind), threshold);
}

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

// Multiplies all gradients by a number. `by_operator(gradient)` multiplies one gradient that no
// kernel fits. A tensor without dimensions is one: its type may be promoted to the number's.
void scale(const std::vector<at::Tensor>& gradients, double factor, auto by_operator) {
  fused::FusedStep<fused::Scale> fused;
  for (const at::Tensor& gradient : gradients) {
    if (gradient.dim() != 0 && fused::can_fuse(gradient, {}, {})) {
      fused.add({.factor = factor}, gradient, {}, {});
    } else {
      by_operator(gradient);
    }
  }
  fused.run();
}

// As torch.nn.utils.clip_grad_norm_ with norm_type 2. Does not wait for a device.
void clip_norm(const std::vector<at::Tensor>& gradients, double threshold) {
  if (gradients.empty()) return;
  const at::Tensor norm = l2_norm(at::stack(l2_norms(gradients)));
  const at::Tensor factor = (threshold / (norm + 1e-6)).clamp_max_(1.0);
  const auto scale_one = [&factor](const at::Tensor& gradient) {
    gradient.mul_(factor.to(gradient.device()));
  };
  if (factor.is_cpu()) {
    scale(gradients, factor.item<double>(), scale_one);
  } else if (are_a_list(gradients)) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    at::_foreach_mul_(gradients, factor);
#else
    at::_foreach_mul_(gradients, std::vector<at::Tensor>(gradients.size(), factor));
#endif
  } else {
    std::ranges::for_each(gradients, scale_one);
  }
}

// As clip_norm(), for gradients of which each rank has some rows.
void clip_sharded_norm(const std::vector<at::Tensor>& gradients, double threshold,
                       const ShardedModule& sharding) {
  double squares = 0;
  for (const at::Tensor& gradient : gradients) {
    if (gradient.numel() == 0) continue;
    const double norm = l2_norm(gradient).item<double>();
    squares += norm * norm;
  }
  const double norm =
      std::sqrt(sharding.sum_over_shards(squares, "adding up the norms of the gradients"));
  const double factor = threshold / (norm + 1e-6);
  if (factor >= 1) return;  // NaN is not.
  scale(gradients, factor, [factor](const at::Tensor& gradient) { gradient.mul_(factor); });
}

// As torch.nn.utils.clip_grad_value_.
void clip_value(const std::vector<at::Tensor>& gradients, double threshold) {
  fused::FusedStep<fused::Clamp> fused;
  for (const at::Tensor& gradient : gradients) {
    if (fused::can_fuse(gradient, {}, {})) {
      fused.add({.limit = threshold}, gradient, {}, {});
    } else {
      gradient.clamp_(-threshold, threshold);
    }
  }
  fused.run();
}

}  // namespace

GradientClipping::GradientClipping(GradientClippingOptions options) : options_(std::move(options)) {
  const auto& type = options_.clipping_type;
  if (!type.value()) {
    throw UsageError(
        "GradientClipping: clipping_type must be \"norm\", \"value\" or \"adaptive\", "
        "found \"" +
        type + "\"");
  }
  if (!(options_.clipping_threshold > 0)) {
    throw UsageError(
        fmt::format("GradientClipping: clipping_threshold must be more than 0, found "
                    "{}",
                    options_.clipping_threshold));
  }
}

std::string GradientClipping::repr() const {
  return fmt::format("GradientClipping(clipping_type='{}',clipping_threshold={})",
                     options_.clipping_type, python_float_repr(options_.clipping_threshold));
}

bool GradientClipping::match(Event event, const State& /*state*/) const {
  return event == Event::kAfterTrainBatch;
}

void GradientClipping::apply(Event /*event*/, State& state, Logger& /*logger*/) {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> parameters = cairn::parameters(state.model->module());
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  const double threshold = options_.clipping_threshold;
  if (state.sharding && options_.clipping_type == ClippingType::kNorm) {
    clip_sharded_norm(gradients, threshold, *state.sharding);
  } else if (state.sharding && options_.clipping_type == ClippingType::kAdaptive) {
    throw UnsupportedError(
        "GradientClipping: \"adaptive\" needs whole weights, and each rank of a sharded model has "
        "only a part of them: use clipping_type \"norm\" or \"value\"");
  } else if (options_.clipping_type == ClippingType::kNorm) {
    clip_norm(gradients, threshold);
  } else if (options_.clipping_type == ClippingType::kValue) {
    clip_value(gradients, threshold);
  } else {
    clip_adaptive(parameters, threshold);
  }
}

}  // namespace cairn
