#include "cairn/algorithms/label_smoothing.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <utility>

#include "cairn/error.h"
#include "cairn/train/state.h"

#include "algorithms/targets.h"
#include "core/text/float_text.h"

namespace cairn {

at::Tensor smooth_labels(const at::Tensor& outputs, const at::Tensor& target, double smoothing) {
  const torch::NoGradGuard no_grad;
  const auto classes = static_cast<double>(outputs.size(1));
  const at::Tensor probabilities = one_hot_targets("LabelSmoothing", outputs, target);
  return probabilities * (1 - smoothing) + smoothing / classes;
}

LabelSmoothing::LabelSmoothing(LabelSmoothingOptions options) : options_(std::move(options)) {
  if (!(options_.smoothing >= 0 && options_.smoothing <= 1)) {
    throw UsageError(
        fmt::format("LabelSmoothing: smoothing must be in [0, 1], found {}", options_.smoothing));
  }
  check_batch_key("LabelSmoothing: target_key", options_.target_key);
}

std::string LabelSmoothing::repr() const {
  return fmt::format("LabelSmoothing(smoothing={},target_key={})",
                     python_float_repr(options_.smoothing), python_repr(options_.target_key));
}

bool LabelSmoothing::match(Event event, const State& /*state*/) const {
  return event == Event::kBeforeLoss || event == Event::kAfterLoss;
}

void LabelSmoothing::apply(Event event, State& state, Logger& /*logger*/) {
  at::Tensor& target = batch_item(state.batch, options_.target_key);
  if (event == Event::kBeforeLoss) {
    original_ = target;
    target = smooth_labels(state.outputs.single(), original_, options_.smoothing);
  } else {
    target = std::exchange(original_, {});  // metrics are computed on the original targets
  }
}

}  // namespace cairn
