#include "cairn/algorithms/label_smoothing.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/state.h"

#include "core/text/float_text.h"

namespace cairn {
namespace {

// Probabilities over the classes, which are dimension 1 of `outputs`. Rows of negative indices are
// zeros.
at::Tensor probabilities(const at::Tensor& outputs, const at::Tensor& target) {
  if (outputs.sizes() == target.sizes()) return target.to(outputs.scalar_type());
  if (outputs.dim() != target.dim() + 1) {
    throw UsageError(
        fmt::format("LabelSmoothing: outputs have {} dimensions and targets {}; "
                    "expected class indices or probabilities",
                    outputs.dim(), target.dim()));
  }
  const at::Tensor indices = target.unsqueeze(1);
  return at::zeros_like(outputs).scatter_(1, indices.clamp_min(0),
                                          indices.ge(0).to(outputs.scalar_type()));
}

at::Tensor& target_of(Batch& batch, const LabelSmoothingOptions& options) {
  if (const auto* name = std::get_if<std::string>(&options.target_key)) return batch[*name];
  return batch[static_cast<std::size_t>(std::get<std::int64_t>(options.target_key))];
}

}  // namespace

at::Tensor smooth_labels(const at::Tensor& outputs, const at::Tensor& target, double smoothing) {
  const torch::NoGradGuard no_grad;
  const auto classes = static_cast<double>(outputs.size(1));
  return probabilities(outputs, target) * (1 - smoothing) + smoothing / classes;
}

LabelSmoothing::LabelSmoothing(LabelSmoothingOptions options) : options_(std::move(options)) {
  if (!(options_.smoothing >= 0 && options_.smoothing <= 1)) {
    throw UsageError(
        fmt::format("LabelSmoothing: smoothing must be in [0, 1], found {}", options_.smoothing));
  }
  const auto* index = std::get_if<std::int64_t>(&options_.target_key);
  if (index != nullptr && *index < 0) {
    throw UsageError(
        fmt::format("LabelSmoothing: target_key must be 0 or more, or a name, found "
                    "{}",
                    *index));
  }
}

std::string LabelSmoothing::repr() const {
  const auto* name = std::get_if<std::string>(&options_.target_key);
  return fmt::format("LabelSmoothing(smoothing={},target_key={})",
                     python_float_repr(options_.smoothing),
                     name != nullptr ? fmt::format("'{}'", *name)
                                     : std::to_string(std::get<std::int64_t>(options_.target_key)));
}

bool LabelSmoothing::match(Event event, const State& /*state*/) const {
  return event == Event::kBeforeLoss || event == Event::kAfterLoss;
}

void LabelSmoothing::apply(Event event, State& state, Logger& /*logger*/) {
  at::Tensor& target = target_of(state.batch, options_);
  if (event == Event::kBeforeLoss) {
    original_ = target;
    target = smooth_labels(state.outputs.single(), original_, options_.smoothing);
  } else {
    target = std::exchange(original_, {});  // metrics are computed on the original targets
  }
}

}  // namespace cairn
