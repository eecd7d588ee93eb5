#include "cairn/algorithms/gradient_clipping.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/state.h"

#include "base/float_text.h"

namespace cairn {
namespace {

// The L2 norm of each unit of a weight or its gradient, kept broadcastable: of the whole for
// vectors, of a row for matrices, of a filter for convolutions.
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

}  // namespace

GradientClipping::GradientClipping(GradientClippingOptions options) : options_(std::move(options)) {
  const std::string& type = options_.clipping_type;
  if (type != "norm" && type != "value" && type != "adaptive") {
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
  const std::vector<at::Tensor> parameters = state.model->module().parameters();
  if (options_.clipping_type == "norm") {
    torch::nn::utils::clip_grad_norm_(parameters, options_.clipping_threshold);
  } else if (options_.clipping_type == "value") {
    torch::nn::utils::clip_grad_value_(parameters, options_.clipping_threshold);
  } else {
    clip_adaptive(parameters, options_.clipping_threshold);
  }
}

}  // namespace cairn
