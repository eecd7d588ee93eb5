// An optimizer's per-parameter state. libtorch 1.13 keys it by the text of the parameter's address,
// libtorch 2.x by the address itself. All other code in cairn uses these functions.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace cairn {

template <class Key>
Key param_state_key(const at::Tensor& parameter) {
  void* address = parameter.unsafeGetTensorImpl();
  if constexpr (std::is_pointer_v<Key>) {
    return address;
  } else {
    std::ostringstream text;
    text << address;
    return text.str();
  }
}

using ParamStates = std::remove_cvref_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;
using ParamStateKey = ParamStates::key_type;

// Nullptr if the parameter has no state.
inline torch::optim::OptimizerParamState* find_param_state(const torch::optim::Optimizer& optimizer,
                                                           const at::Tensor& parameter) {
  const auto found = optimizer.state().find(param_state_key<ParamStateKey>(parameter));
  return found == optimizer.state().end() ? nullptr : found->second.get();
}

// The parameter's state, of the optimizer's own class. Made on first use.
template <class State>
State& param_state(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  auto& slot = optimizer.state()[param_state_key<ParamStateKey>(parameter)];
  if (!slot) slot = std::make_unique<State>();
  return static_cast<State&>(*slot);
}

}  // namespace cairn
