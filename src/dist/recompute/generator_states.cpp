#include "dist/recompute/generator_states.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <mutex>

namespace cairn {

at::Tensor generator_state(at::Generator generator) {
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(at::Generator generator, const at::Tensor& state) {
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

void GeneratorStates::add(const at::Generator& generator) {
  const auto is_same = [&](const auto& known) { return known.first == generator; };
  if (std::ranges::any_of(states_, is_same)) return;
  states_.emplace_back(generator, generator_state(generator));
}

GeneratorStates GeneratorStates::current(const std::vector<at::Tensor>& tensors) {
  GeneratorStates states;
  states.add(at::detail::getDefaultCPUGenerator());
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.is_cuda()) continue;
    states.add(at::globalContext().defaultGenerator(tensor.device()));
  }
  return states;
}

GeneratorStates GeneratorStates::again() const {
  GeneratorStates states;
  for (const auto& [generator, state] : states_)
    states.add(generator);
  return states;
}

void GeneratorStates::make_current() const {
  for (const auto& [generator, state] : states_)
    set_generator_state(generator, state);
}

}  // namespace cairn
