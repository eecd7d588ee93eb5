#include "cairn/train/model.h"

#include <torch/torch.h>

#include "cairn/error.h"

namespace cairn {

Outputs Model::eval_forward(const Batch& batch, const Outputs* outputs) {
  return outputs != nullptr ? *outputs : forward(batch);
}

Metrics Model::get_metrics(bool /*is_train*/) { return {}; }

void Model::update_metric(const Batch& batch, const Outputs& outputs, Metric& metric) {
  metric.update(outputs.single(), batch[1]);
}

}  // namespace cairn
