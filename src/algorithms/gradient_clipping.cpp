#include "cairn/algorithms/gradient_clipping.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state.h"

#include "core/text/float_text.h"

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

void clip_adaptive(const std::vector<at::Tensor>& parameters, double threshold) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const at::Tensor factor = unit_norms(parameter) * threshold / unit_norms(gradient);
    gradient.mul_(factor.nan_to_num_(/*nan=*/1.0).clamp_max_(1.0));
  }
}

// The L2 norm, rounded as PyTorch 2 rounds it on x86: squares are summed in eight lanes, and then
// the lanes are added in order. libtorch 1.13 fuses product and sum, which changes the last bit.
// optim/adam.cpp says why a last bit can matter. Larger tensors are split among threads and have no
// fixed order.
constexpr std::int64_t kLargestInOneThread = 32768;

at::Tensor l2_norm(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || tensor.scalar_type() != at::kFloat || !tensor.is_contiguous() ||
      tensor.numel() >= kLargestInOneThread) {
    return tensor.norm(2);
  }
  constexpr std::size_t kLanes = 8;
  const std::span<const float> values(tensor.data_ptr<float>(),
                                      static_cast<std::size_t>(tensor.numel()));
  const std::size_t in_lanes = values.size() - values.size() % kLanes;
  std::array<float, kLanes> lanes{};
  for (std::size_t i = 0; i < in_lanes; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += values[i + lane] * values[i + lane];
    }
  }
  float sum = std::accumulate(lanes.begin(), lanes.end(), 0.0F);
  for (const float value : values.subspan(in_lanes)) {
    sum += value * value;
  }
  return at::full({}, std::sqrt(sum), tensor.options());
}

// As torch.nn.utils.clip_grad_norm_ with norm_type 2.
void clip_norm(const std::vector<at::Tensor>& parameters, double threshold) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) norms.push_back(l2_norm(parameter.grad()));
  }
  if (norms.empty()) return;
  for (at::Tensor& norm : norms) {
    norm = norm.to(norms.front().device());
  }
  const at::Tensor factor = (threshold / (l2_norm(at::stack(norms)) + 1e-6)).clamp_max_(1.0);
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.grad().mul_(factor.to(parameter.grad().device()));
  }
}

// As clip_norm(), for gradients of which each rank has some rows.
void clip_sharded_norm(const std::vector<at::Tensor>& parameters, double threshold,
                       const ShardedModule& sharding) {
  const torch::NoGradGuard no_grad;
  double squares = 0;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined() || parameter.grad().numel() == 0) continue;
    const double norm = l2_norm(parameter.grad()).item<double>();
    squares += norm * norm;
  }
  const double norm =
      std::sqrt(sharding.sum_over_shards(squares, "adding up the norms of the gradients"));
  const double factor = threshold / (norm + 1e-6);
  if (factor >= 1) return;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.grad().mul_(factor);
  }
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
  const std::vector<at::Tensor> parameters = cairn::parameters(state.model->module());
  if (state.sharding && options_.clipping_type == ClippingType::kNorm) {
    clip_sharded_norm(parameters, options_.clipping_threshold, *state.sharding);
  } else if (state.sharding && options_.clipping_type == ClippingType::kAdaptive) {
    throw UnsupportedError(
        "GradientClipping: \"adaptive\" needs whole weights, and each rank of a sharded model has "
        "only a part of them: use clipping_type \"norm\" or \"value\"");
  } else if (options_.clipping_type == ClippingType::kNorm) {
    clip_norm(parameters, options_.clipping_threshold);
  } else if (options_.clipping_type == ClippingType::kValue) {
    torch::nn::utils::clip_grad_value_(parameters, options_.clipping_threshold);
  } else {
    clip_adaptive(parameters, options_.clipping_threshold);
  }
}

}  // namespace cairn
