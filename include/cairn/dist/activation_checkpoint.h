// Activation checkpointing: a part of a model keeps only its inputs for backward(), which computes
// the part's forward() again (PyTorch's torch.utils.checkpoint.checkpoint, the reentrant kind).
// Memory for activations falls, and the part's forward() is computed twice.
//
//   at::Tensor forward(at::Tensor x) {
//     for (auto& block : blocks)  // of a ModuleHolder, such as torch::nn::Linear
//       x = cairn::checkpoint_activations(block, x);
//     return x;
//   }
//
// FSDPConfig::activation_checkpointing does this for every Sharded<> (cairn/dist/sharding.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {
namespace detail {

template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTuple<std::pair<A, B>> : std::true_type {};

// A Tensor, a vector of them, or a tuple of such.
template <class T>
struct IsOfTensors : std::bool_constant<std::is_same_v<T, at::Tensor> ||
                                        std::is_same_v<T, std::vector<at::Tensor>>> {};
template <class... T>
struct IsOfTensors<std::tuple<T...>> : std::conjunction<IsOfTensors<T>...> {};
template <class A, class B>
struct IsOfTensors<std::pair<A, B>> : std::conjunction<IsOfTensors<A>, IsOfTensors<B>> {};

// Calls use(tensor) for each tensor in `value`, in order. Values of other types have none.
template <class T, class Use>
void for_each_tensor(T& value, const Use& use) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    use(value);
  } else if constexpr (std::is_same_v<T, std::vector<at::Tensor>>) {
    for (at::Tensor& tensor : value)
      use(tensor);
  } else if constexpr (std::is_same_v<T, std::optional<at::Tensor>>) {
    if (value) use(*value);
  } else if constexpr (IsTuple<T>::value) {
    std::apply([&](auto&... parts) { (for_each_tensor(parts, use), ...); }, value);
  }
}

// Moves the tensors out of `value`, which keeps undefined ones.
template <class T>
std::vector<at::Tensor> take_tensors(T& value) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(
      value, [&](at::Tensor& tensor) { tensors.push_back(std::exchange(tensor, at::Tensor())); });
  return tensors;
}

// Puts tensors back to where take_tensors() took them from.
template <class T>
void put_tensors(T& value, const std::vector<at::Tensor>& tensors) {
  std::size_t next = 0;
  for_each_tensor(value, [&](at::Tensor& tensor) { tensor = tensors[next++]; });
}

using ComputeTensors =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;
// checkpoint_activations() for a function of tensors.
std::vector<at::Tensor> checkpoint_tensors(ComputeTensors compute,
                                           const std::vector<at::Tensor>& inputs);

}  // namespace detail

// Returns function(args...), which gives a Tensor, a vector of them, or a tuple of such. Gradients
// are those of a plain call, bit for bit if libtorch's operators are deterministic. backward()
// computes with the same random numbers (the CPU's, and those of the inputs' GPUs) and the same
// autocast. It leaves the generators as they were. Only the gradients of a parameter that is also
// used elsewhere are added in another order. Parameters get their gradients even if no argument
// requires one. Without gradients (torch::NoGradGuard) this is a plain call.
//
// `function` and the arguments are copied, and kept until backward() is done with the result.
// Copied tensors share memory. Tensors that require gradients, and are not parameters, must be
// arguments, not captured. Objects that a lambda captures by reference must still exist in
// backward(). `function` must not change its arguments. State that `function` changes, such as
// BatchNorm's running statistics, changes twice. The result requires gradients even if nothing in
// the function does; then backward() computes it again for nothing.
//
// backward() throws UsageError if it was called with `inputs`, or by torch::autograd::grad(), since
// gradients are added to `.grad` within it; and if `function` gives another number of tensors than
// the first time. A gradient of a gradient (create_graph) is not computed through the result.
// Thread-safe as `function` is.
template <class Function, class... Args>
auto checkpoint_activations(Function function, Args&&... args) {
  using Result = std::decay_t<std::invoke_result_t<Function&, Args...>>;
  static_assert(detail::IsOfTensors<Result>::value,
                "the function of checkpoint_activations() gives a Tensor, a vector of them, or a "
                "tuple of such");
  static_assert((std::is_copy_constructible_v<std::decay_t<Args>> && ...),
                "checkpoint_activations() copies the arguments of its function");
  std::tuple<std::decay_t<Args>...> others(std::forward<Args>(args)...);
  const std::vector<at::Tensor> inputs = detail::take_tensors(others);
  const auto shape = std::make_shared<std::optional<Result>>();  // The result, without its tensors.
  auto compute = [function, others, shape](const std::vector<at::Tensor>& given) mutable {
    auto arguments = others;
    detail::put_tensors(arguments, given);
    *shape = std::apply(
        [&](auto&... each) -> Result { return function(static_cast<Args&&>(each)...); }, arguments);
    return detail::take_tensors(**shape);
  };
  const std::vector<at::Tensor> outputs = detail::checkpoint_tensors(std::move(compute), inputs);
  Result result = **shape;
  detail::put_tensors(result, outputs);
  return result;
}

}  // namespace cairn
