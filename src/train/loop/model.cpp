#include "cairn/train/model.h"

#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

namespace cairn {

Outputs Model::eval_forward(const Batch& batch, const Outputs* outputs) {
  return outputs != nullptr ? *outputs : forward(batch);
}

Value Metric::merge_states(const std::vector<Value>& states) const {
  const auto fail = [this](const std::string& why) -> UnsupportedError {
    return UnsupportedError("metric " + name() + " does not say how it is computed over several " +
                            "processes: " + why + "; override Metric::merge_states()");
  };
  if (states.empty() || !states.front().is_dict() || states.front().as_dict().empty()) {
    throw fail("its state_dict() is empty");
  }
  const torch::NoGradGuard no_grad;
  Dict sums;
  for (const auto& [key, value] : states.front().as_dict()) {
    if (!value.is_tensor()) throw fail("its state_dict() holds more than tensors");
    at::Tensor sum = tensor_of(value.as_tensor()).clone();
    for (std::size_t i = 1; i < states.size(); ++i) {
      const at::Tensor addend = tensor_of(states[i].at(key.as_str()).as_tensor());
      if (addend.sizes() != sum.sizes()) throw fail("the ranks' states differ in shape");
      sum.add_(addend);
    }
    sums.set(key.as_str(), view_of(sum));
  }
  return sums;
}

Metrics Model::get_metrics(bool /*is_train*/) { return {}; }

void Model::update_metric(const Batch& batch, const Outputs& outputs, Metric& metric) {
  metric.update(outputs.single(), batch[1]);
}

}  // namespace cairn
