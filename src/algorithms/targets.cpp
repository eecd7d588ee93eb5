#include "algorithms/targets.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/state.h"

namespace cairn {

std::string python_repr(const BatchKey& key) {
  if (const auto* name = std::get_if<std::string>(&key)) return "'" + *name + "'";
  return std::to_string(std::get<std::int64_t>(key));
}

std::string python_bool(bool value) { return value ? "True" : "False"; }

at::Tensor one_hot_targets(const std::string& who, const at::Tensor& outputs,
                           const at::Tensor& target) {
  if (outputs.sizes() == target.sizes()) return target.to(at::kFloat);
  if (outputs.dim() != target.dim() + 1) {
    throw UsageError(
        fmt::format("{}: outputs have {} dimensions and targets {}; expected class indices or "
                    "probabilities",
                    who, outputs.dim(), target.dim()));
  }
  const at::Tensor indices = target.unsqueeze(1);
  return at::zeros_like(outputs, at::kFloat)
      .scatter_(1, indices.clamp_min(0), indices.ge(0).to(at::kFloat));
}

at::Tensor loss_against(const std::string& who, const State& state, const BatchKey& target_key,
                        const at::Tensor& target) {
  Batch batch = state.batch;
  batch_item(batch, target_key) = target;
  const Losses losses = state.model->loss(state.outputs, batch);
  if (losses.size() != 1) {
    throw UnsupportedError(
        fmt::format("{}: interpolate_loss needs a model with one loss, and this one has {}", who,
                    losses.size()));
  }
  return losses.single().mean();
}

}  // namespace cairn
