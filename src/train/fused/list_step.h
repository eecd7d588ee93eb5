// Steps several parameters on a device (a GPU) by a few operators, each of which takes a list of
// tensors. One operator for each parameter would start many times as many kernels.
#pragma once

#include <torch/torch.h>

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "train/fused/arithmetic.h"

namespace cairn::fused {

using States = std::array<at::Tensor, 3>;  // undefined where the step uses none

// Whether the libtorch at hand has a kernel of the operator `name` for the device itself, and not
// only one that takes the tensors of a list one after another.
bool has_kernel(const char* name, c10::Device device);
// Whether ListStep works on the device.
bool has_list_kernels(c10::Device device);
// A line for a run's log: how cairn's optimizers step parameters on the device. Empty for the CPU.
std::string describe_steps(c10::Device device);

// Parameters of one device and type, and the steps of an optimizer's group, with the same flags.
// The steps differ only in what depends on the number of steps so far.
template <class Step>
struct StepList {
  std::vector<Step> steps;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::array<std::vector<at::Tensor>, 3> states;  // empty where the step uses none
};

// Results may differ from those of single operators in the last bits.
void run_list(const StepList<Adam>& list);
void run_list(const StepList<Sgd>& list);
void run_list(const StepList<Rmsprop>& list);
void run_list(const StepList<Adagrad>& list);
void run_list(const StepList<Nadam>& list);
void run_list(const StepList<Radam>& list);
void run_list(const StepList<Average>& list);
void run_list(const StepList<Scale>& list);
void run_list(const StepList<Clamp>& list);

// Sorts parameters into lists, and steps these. `Step`: a step of arithmetic.h.
template <class Step>
class ListStep {
 public:
  // All tensors have the same device, type, size and order of elements.
  void add(const Step& step, const at::Tensor& parameter, const at::Tensor& gradient,
           const States& states) {
    if (parameter.numel() == 0) return;
    const c10::Device device = parameter.device();
    StepList<Step>& list =
        lists_[{device.type(), device.index(), parameter.scalar_type(), step.flags}];
    list.steps.push_back(step);
    list.parameters.push_back(parameter);
    // Dimensions of size 1 may have any stride. Older libtorches take only equal strides.
    const auto with_same_strides = [&parameter](const at::Tensor& tensor) {
      if (tensor.strides() == parameter.strides()) return tensor;
      return tensor.as_strided(parameter.sizes(), parameter.strides());
    };
    if (gradient.defined()) list.gradients.push_back(with_same_strides(gradient));
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (Step::uses(step.flags, static_cast<int>(i)))
        list.states[i].push_back(with_same_strides(states[i]));
    }
  }
  void run() const {
    for_each([](const auto& list) { run_list(list); });
  }
  void for_each(auto visit) const {
    for (const auto& [kind, list] : lists_)
      visit(list);
  }

 private:
  using Kind = std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType, unsigned>;
  std::map<Kind, StepList<Step>> lists_;
};

}  // namespace cairn::fused
