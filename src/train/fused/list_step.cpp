#include "train/fused/list_step.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <cstdint>
#include <functional>

namespace cairn::fused {
namespace {

constexpr const char* kFusedAdam = "aten::_fused_adam_";
constexpr const char* kFusedAdamW = "aten::_fused_adamw_";
constexpr const char* kFusedSgd = "aten::_fused_sgd_";

using Tensors = std::vector<at::Tensor>;

bool has_kernel_for(const auto& found_operator, c10::Device device) {
  return found_operator &&
         found_operator->hasKernelForDispatchKey(c10::computeDispatchKey({}, {}, device));
}

// One coefficient of each step: a member, or what a function computes from a step.
std::vector<at::Scalar> each(const auto& list, auto coefficient) {
  std::vector<at::Scalar> found;
  found.reserve(list.steps.size());
  for (const auto& step : list.steps)
    found.emplace_back(std::invoke(coefficient, step));
  return found;
}

// Decoupled weight decay.
void shrink(const auto& list) {
  const double keep = list.steps.front().keep;
  if (keep != 1) at::_foreach_mul_(list.parameters, keep);
}

// The gradients, with weight decay added where a step adds it.
Tensors decayed_gradients(const auto& list) {
  const auto& step = list.steps.front();
  if ((step.flags & step.kAddsDecay) == 0) return list.gradients;
  return at::_foreach_add(list.gradients, list.parameters, step.decay);
}

// values = factor * values + (1 - factor) * others
void average(const Tensors& values, const Tensors& others, double factor) {
  at::_foreach_mul_(values, factor);
  at::_foreach_add_(values, others, 1 - factor);
}

// values = factor * values + (1 - factor) * others^2
void average_squares(const Tensors& values, const Tensors& others, double factor) {
  at::_foreach_mul_(values, factor);
  at::_foreach_addcmul_(values, others, others, 1 - factor);
}

// sqrt(squares) + eps
Tensors norms_of(const Tensors& squares, double eps) {
  Tensors norms = at::_foreach_sqrt(squares);
  at::_foreach_add_(norms, eps);
  return norms;
}

// The number of each parameter's step, as the fused operators take it: a number on the device.
Tensors counts_of(const StepList<Adam>& list) {
  const at::TensorOptions options = list.parameters.front().options().dtype(at::kFloat);
  std::map<long long, at::Tensor> counts;
  Tensors found;
  for (const Adam& step : list.steps) {
    at::Tensor& count = counts[step.count];
    if (!count.defined()) count = at::full({}, static_cast<double>(step.count), options);
    found.push_back(count);
  }
  return found;
}

// Returns false if the device has no fused operator for Adam.
bool run_fused(const StepList<Adam>& list) {
  const c10::Device device = list.parameters.front().device();
  const Adam& step = list.steps.front();
  const auto run = [&](auto fused, double weight_decay) {
    fused(list.parameters, list.gradients, list.states[0], list.states[1], list.states[2],
          counts_of(list), step.lr, step.beta1, step.beta2, weight_decay, step.eps,
          (step.flags & Adam::kAmsgrad) != 0, /*maximize=*/false);
  };
#if TORCH_VERSION_MAJOR >= 2
  if (step.keep != 1 && step.lr != 0 && has_kernel(kFusedAdamW, device)) {
    run([](const auto&... each) { at::_fused_adamw_(each...); }, (1 - step.keep) / step.lr);
    return true;
  }
#endif
  if (!has_kernel(kFusedAdam, device)) return false;
  shrink(list);
  run([](const auto&... each) { at::_fused_adam_(each...); }, step.decay);
  return true;
}

// Returns false if the device has no fused operator for SGD.
bool run_fused(const StepList<Sgd>& list) {
  if (!has_kernel(kFusedSgd, list.parameters.front().device())) return false;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  const Sgd& step = list.steps.front();
  shrink(list);
  at::_fused_sgd_(list.parameters, list.gradients, list.states[0], step.decay, step.momentum,
                  -step.rate, step.dampening, (step.flags & Sgd::kNesterov) != 0,
                  /*maximize=*/false, /*is_first_step=*/false);
  return true;
#else
  return false;
#endif
}

}  // namespace

bool has_kernel(const char* name, c10::Device device) {
  return has_kernel_for(c10::Dispatcher::singleton().findSchema({name, ""}), device);
}

bool has_list_kernels(c10::Device device) {
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchema({"aten::_foreach_addcdiv_", "ScalarList"});
  return has_kernel_for(kOperator, device);
}

std::string describe_steps(c10::Device device) {
  if (device.is_cpu()) return "";
  if (!has_list_kernels(device)) {
    return fmt::format(
        "cairn's optimizers step parameters on {} one after another: this libtorch has no kernels "
        "for lists of tensors there",
        device.str());
  }
  std::string fused;
  for (const char* name : {kFusedAdam, kFusedAdamW, kFusedSgd}) {
    if (has_kernel(name, device)) fused += fmt::format(", {}", name + sizeof("aten::") - 1);
  }
  return fmt::format("cairn's optimizers step parameters on {} as lists of tensors (_foreach{})",
                     device.str(), fused);
}

void run_list(const StepList<Adam>& list) {
  if (run_fused(list)) return;
  const Adam& step = list.steps.front();
  const auto& [m, v, largest] = list.states;
  shrink(list);
  const Tensors gradients = decayed_gradients(list);
  average(m, gradients, step.beta1);
  average_squares(v, gradients, step.beta2);
  if (!largest.empty()) at::_foreach_maximum_(largest, v);
  const Tensors norms = at::_foreach_sqrt(largest.empty() ? v : largest);
  at::_foreach_div_(norms, each(list, &Adam::root));
  at::_foreach_add_(norms, step.eps);
  at::_foreach_addcdiv_(list.parameters, m, norms, each(list, &Adam::rate));
}

void run_list(const StepList<Sgd>& list) {
  if (run_fused(list)) return;
  const Sgd& step = list.steps.front();
  const Tensors& buffers = list.states[0];
  Tensors direction = decayed_gradients(list);
  if (!buffers.empty()) {
    at::_foreach_mul_(buffers, step.momentum);
    at::_foreach_add_(buffers, direction, 1 - step.dampening);
    const bool nesterov = (step.flags & Sgd::kNesterov) != 0;
    direction = nesterov ? at::_foreach_add(direction, buffers, step.momentum) : buffers;
  }
  shrink(list);
  at::_foreach_add_(list.parameters, direction, step.rate);
}

void run_list(const StepList<Rmsprop>& list) {
  const Rmsprop& step = list.steps.front();
  const auto& [squares, averages, buffers] = list.states;
  const Tensors gradients = decayed_gradients(list);
  average_squares(squares, gradients, step.alpha);
  Tensors norms;
  if (averages.empty()) {
    norms = norms_of(squares, step.eps);
  } else {
    average(averages, gradients, step.alpha);
    norms = norms_of(at::_foreach_addcmul(squares, averages, averages, -1), step.eps);
  }
  if (buffers.empty()) {
    at::_foreach_addcdiv_(list.parameters, gradients, norms, step.rate);
  } else {
    at::_foreach_mul_(buffers, step.momentum);
    at::_foreach_addcdiv_(buffers, gradients, norms);
    at::_foreach_add_(list.parameters, buffers, step.rate);
  }
}

void run_list(const StepList<Adagrad>& list) {
  const Tensors gradients = decayed_gradients(list);
  const Tensors& sums = list.states[0];
  at::_foreach_addcmul_(sums, gradients, gradients);
  const Tensors norms = norms_of(sums, list.steps.front().eps);
  at::_foreach_addcdiv_(list.parameters, gradients, norms, each(list, &Adagrad::rate));
}

// Decays the parameters, and averages the gradients and their squares. Returns the gradients.
template <class Step>
Tensors average_moments(const StepList<Step>& list) {
  const Step& step = list.steps.front();
  shrink(list);
  Tensors gradients = decayed_gradients(list);
  average(list.states[0], gradients, step.beta1);
  average_squares(list.states[1], gradients, step.beta2);
  return gradients;
}

void run_list(const StepList<Nadam>& list) {
  const Nadam& step = list.steps.front();
  const auto& [m, v, unused] = list.states;
  const Tensors gradients = average_moments(list);
  const Tensors norms = norms_of(at::_foreach_div(v, each(list, &Nadam::correction)), step.eps);
  at::_foreach_addcdiv_(list.parameters, gradients, norms, each(list, &Nadam::gradient_rate));
  at::_foreach_addcdiv_(list.parameters, m, norms, each(list, &Nadam::moment_rate));
}

void run_list(const StepList<Radam>& list) {
  const Radam& step = list.steps.front();
  const auto& [m, v, unused] = list.states;
  const Tensors gradients = average_moments(list);
  if ((step.flags & Radam::kRectified) == 0) {
    const auto rate = [](const Radam& s) { return s.lr / s.correction; };
    at::_foreach_add_(list.parameters, at::_foreach_mul(m, each(list, rate)), -1);
  } else {
    const auto rate = [](const Radam& s) {
      return -s.lr / s.correction * s.root * s.rectification;
    };
    at::_foreach_addcdiv_(list.parameters, m, norms_of(v, step.eps), each(list, rate));
  }
}

void run_list(const StepList<Average>& list) {
  average(list.parameters, list.gradients, list.steps.front().smoothing);
}

void run_list(const StepList<Scale>& list) {
  at::_foreach_mul_(list.parameters, list.steps.front().factor);
}

void run_list(const StepList<Clamp>& list) {
  const double limit = list.steps.front().limit;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
  at::_foreach_clamp_min_(list.parameters, -limit);
  at::_foreach_clamp_max_(list.parameters, limit);
#else
  for (const at::Tensor& tensor : list.parameters)
    tensor.clamp_(-limit, limit);
#endif
}

}  // namespace cairn::fused
