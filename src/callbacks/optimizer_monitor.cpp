#include "cairn/callbacks/optimizer_monitor.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "dist/group.h"
#include "train/optimizer/field_visitor.h"
#include "train/optimizer/l2_norm.h"
#include "train/optimizer/param_state.h"
#include "train/state/trainable_parameters.h"

namespace cairn {
namespace {

// Finds the mean of a parameter's gradients in the optimizer's state.
class MomentFinder final : public FieldVisitor {
 public:
  using FieldVisitor::FieldVisitor;
  at::Tensor exp_avg;
  at::Tensor momentum_buffer;

 private:
  void look(const Field& field) override {
    if (field.kind != FieldKind::kTensor) return;
    const std::string key = field.key;
    if (key == "exp_avg") exp_avg = *field.tensor;
    if (key == "momentum_buffer") momentum_buffer = *field.tensor;
  }
};

// The moments of all parameters that have one, by the parameter's address.
using MomentsByParameter = std::map<const c10::TensorImpl*, at::Tensor>;
MomentsByParameter moments_of(torch::optim::Optimizer& optimizer) {
  MomentsByParameter moments;
  const OptimizerLayout* layout = find_layout(optimizer);
  if (layout == nullptr) return moments;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto* values = find_param_state(optimizer, parameter);
      if (values == nullptr) continue;
      MomentFinder finder(parameter, group.params());
      visit_state_copy(*layout, {*values, parameter, group}, finder);
      const at::Tensor& moment = finder.exp_avg.defined() ? finder.exp_avg : finder.momentum_buffer;
      if (moment.defined()) moments[parameter.unsafeGetTensorImpl()] = moment;
    }
  }
  return moments;
}

using NamedNumbers = std::vector<std::pair<std::string, std::optional<double>>>;

// The tensors to take the norm of, by key. A tensor that this rank lacks is undefined: its norm is
// logged only if another rank has it.
NamedNumbers norms_of(const TensorsByName& tensors) {
  std::vector<at::Tensor> present;
  for (const auto& [key, tensor] : tensors) {
    if (!tensor.defined()) continue;
    present.push_back(tensor.is_sparse() ? tensor.coalesce().values() : tensor);
  }
  std::vector<at::Tensor> norms = l2_norms(present);
  const bool is_mixed = std::ranges::any_of(norms, [&norms](const at::Tensor& norm) {
    return norm.scalar_type() != norms.front().scalar_type();
  });
  for (at::Tensor& norm : norms)
    if (is_mixed) norm = norm.to(at::kDouble);
  const at::Tensor fetched = norms.empty() ? at::Tensor() : at::stack(norms).cpu();
  NamedNumbers numbers;
  std::int64_t next = 0;
  for (const auto& [key, tensor] : tensors) {
    std::optional<double> number;
    if (tensor.defined()) number = fetched[next++].item<double>();
    numbers.emplace_back(key, number);
  }
  return numbers;
}

// Norms of the whole tensors from those of this rank's rows. Copies of one part have the same rows.
void add_up_shards(NamedNumbers& norms, const ShardedModule& sharding) {
  std::vector<double> sums;
  for (const auto& [key, norm] : norms) {
    sums.push_back(norm.value_or(0) * norm.value_or(0));
    sums.push_back(norm ? 1 : 0);
  }
  sums = dist::sum(std::move(sums), "adding up the norms of the parameters");
  const auto copies = static_cast<double>(sharding.replicas());
  for (std::size_t i = 0; i < norms.size(); ++i) {
    norms[i].second.reset();
    if (sums[2 * i + 1] > 0) norms[i].second = std::sqrt(sums[2 * i] / copies);
  }
}

}  // namespace

OptimizerMonitor::OptimizerMonitor(const OptimizerMonitorOptions& options) : options_(options) {
  if (options.batch_log_interval < 1) {
    throw UsageError("OptimizerMonitor: batch_log_interval must be at least 1");
  }
}

void OptimizerMonitor::batch_start(State& /*state*/, Logger& /*logger*/) { before_step_.clear(); }

// Happens several times in a batch of LBFGS, the first time before it changes a weight.
void OptimizerMonitor::after_train_batch(State& state, Logger& /*logger*/) {
  if (!options_.log_optimizer_metrics || !before_step_.empty()) return;
  if ((state.timestamp.batch + 1) % options_.batch_log_interval != 0) return;
  for (const auto& [name, parameter] : trainable_parameters(state))
    before_step_.push_back(parameter.detach().clone());
}

void OptimizerMonitor::batch_end(State& state, Logger& logger) {
  if (state.timestamp.batch % options_.batch_log_interval != 0) return;
  const torch::NoGradGuard no_grad;
  NamedNumbers norms = norms_of(watched_tensors(state));
  before_step_.clear();
  if (state.sharding) add_up_shards(norms, *state.sharding);
  Dict metrics;
  double squares = 0;
  for (const auto& [key, norm] : norms) {
    if (!norm) continue;
    if (key.starts_with("l2_norm/grad/")) squares += *norm * *norm;
    metrics.set(key, *norm);
  }
  metrics.set("l2_norm/grad/global", std::sqrt(squares));
  logger.log_metrics(metrics);
}

// Turns before_step_ into the updates, so that they need no memory of their own.
TensorsByName OptimizerMonitor::watched_tensors(const State& state) {
  const TensorsByName parameters = trainable_parameters(state);
  const bool is_whole = options_.log_optimizer_metrics && before_step_.size() == parameters.size();
  const auto moments = is_whole ? moments_of(*state.optimizer) : MomentsByParameter();
  TensorsByName tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    const bool has_gradient = parameter.grad().defined();
    tensors.emplace_back("l2_norm/grad/" + name, parameter.grad());
    if (!is_whole) continue;
    const auto found = moments.find(parameter.unsafeGetTensorImpl());
    const at::Tensor moment = found == moments.end() ? at::Tensor() : found->second;
    const at::Tensor update = before_step_[i].sub_(parameter);
    tensors.emplace_back("l2_norm/moment/" + name, has_gradient ? moment : at::Tensor());
    tensors.emplace_back("l2_norm/param/" + name, has_gradient ? parameter : at::Tensor());
    tensors.emplace_back("l2_norm/update/" + name, has_gradient ? update : at::Tensor());
  }
  return tensors;
}

}  // namespace cairn
