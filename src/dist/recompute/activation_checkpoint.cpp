// Activation checkpointing, as an autograd function.
//
//  1. forward() computes without autograd. It keeps the inputs, the states of the random generators
//     and the state of autocast.
//  2. backward() computes again, from detached inputs, with these states and with autograd. A
//     backward() inside of it, through the new graph, adds the gradients of parameters to `.grad`
//     and returns those of the inputs.
//  3. The forward of step 1 must not fill autocast's cache of cast weights: a later use of such a
//     weight would take the cast, which has no graph, and lose its gradient.
//  4. A tensor without elements, which requires a gradient, is one more input. So parameters get
//     gradients if no real input requires one, as in the first layer of a model.
#include "cairn/dist/activation_checkpoint.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <algorithm>

#include "cairn/error.h"

#include "dist/recompute/autocast_state.h"
#include "dist/recompute/generator_states.h"

namespace cairn::detail {
namespace {

using torch::autograd::AutogradContext;
using Tensors = std::vector<at::Tensor>;

// The state that backward() needs to compute again. In AutogradContext::saved_data.
struct Recomputation : torch::CustomClassHolder {
  Recomputation(ComputeTensors function, const Tensors& inputs)
      : compute(std::move(function)),
        autocast(AutocastState::current()),
        generators(GeneratorStates::current(inputs)) {}

  Tensors run(const Tensors& inputs) const {
    const GeneratorStates before = generators.again();
    generators.make_current();
    const at::AutoGradMode with_gradients(true);
    const AutocastScope scope(autocast);
    Tensors outputs;
    try {
      outputs = compute(inputs);
    } catch (...) {
      before.make_current();
      throw;
    }
    before.make_current();
    return outputs;
  }

  const ComputeTensors compute;
  const AutocastState autocast;
  const GeneratorStates generators;
  std::vector<bool> are_defined;  // For each output. autograd takes only defined ones.
};

constexpr const char* kRecomputation = "recomputation";

Tensors defined_of(Tensors tensors) {
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

class ActivationCheckpoint : public torch::autograd::Function<ActivationCheckpoint> {
 public:
  static Tensors forward(AutogradContext* context, at::TensorList inputs, at::Tensor /*anchor*/,
                         const c10::intrusive_ptr<Recomputation>& again) {
    AutocastState uncached = again->autocast;
    uncached.uses_cache = false;
    const AutocastScope scope(uncached);
    context->save_for_backward(inputs.vec());
    context->set_materialize_grads(false);
    context->saved_data[kRecomputation] =
        c10::IValue::make_capsule(c10::intrusive_ptr<torch::CustomClassHolder>(again));
    Tensors outputs = again->compute(inputs.vec());
    // autograd refuses changes in place of views that a function made. The views here need not be
    // known as such.
    for (at::Tensor& output : outputs) {
      if (output.defined()) output = output.detach();
    }
    for (const at::Tensor& output : outputs)
      again->are_defined.push_back(output.defined());
    return defined_of(std::move(outputs));
  }

  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    if (!torch::autograd::Engine::get_default_engine().is_checkpoint_valid()) {
      throw UsageError(
          "checkpoint_activations() adds gradients to .grad, so it works with "
          "tensor.backward() only, not with torch::autograd::grad() or `inputs` of backward()");
    }
    const auto again = c10::static_intrusive_pointer_cast<Recomputation>(
        context->saved_data.at(kRecomputation).toCapsule());
    Tensors inputs;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      inputs.push_back(saved.defined() ? saved.detach().requires_grad_(saved.requires_grad())
                                       : saved);
    }
    const Tensors outputs = defined_of(again->run(inputs));
    if (outputs.size() != gradients.size()) {
      throw UsageError(fmt::format(
          "the function of checkpoint_activations() gave {} tensors in forward(), and {} when "
          "backward() computed it again: it must compute the same both times",
          gradients.size(), outputs.size()));
    }
    back_through(outputs, gradients);
    Tensors of_inputs;
    for (const at::Tensor& input : inputs)
      of_inputs.push_back(input.defined() ? input.grad() : at::Tensor());
    of_inputs.resize(inputs.size() + 2);  // `anchor` and `again` have none.
    return of_inputs;
  }

 private:
  static void back_through(const Tensors& outputs, const Tensors& gradients) {
    Tensors roots;
    Tensors of_roots;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
      roots.push_back(outputs[i]);
      of_roots.push_back(gradients[i]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, of_roots);
  }
};

}  // namespace

Tensors checkpoint_tensors(ComputeTensors compute, const Tensors& inputs) {
  if (!at::GradMode::is_enabled()) return compute(inputs);
  const auto again = c10::make_intrusive<Recomputation>(std::move(compute), inputs);
  const at::Tensor anchor = at::empty({0}).requires_grad_();
  const at::TensorList list = inputs;
  const Tensors defined = ActivationCheckpoint::apply(list, anchor, again);
  Tensors outputs;
  for (auto next = defined.begin(); const bool is_defined : again->are_defined)
    outputs.push_back(is_defined ? *next++ : at::Tensor());
  return outputs;
}

}  // namespace cairn::detail
