// States of libtorch's random generators.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace cairn {

at::Tensor generator_state(at::Generator generator);
void set_generator_state(at::Generator generator, const at::Tensor& state);

// The CPU's generator, and those of the GPUs on which some tensors are.
class GeneratorStates {
 public:
  static GeneratorStates current(const std::vector<at::Tensor>& tensors);
  // The same generators as they are now.
  GeneratorStates again() const;
  void make_current() const;

 private:
  void add(const at::Generator& generator);

  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

}  // namespace cairn
