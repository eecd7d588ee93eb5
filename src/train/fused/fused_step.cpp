#include "train/fused/fused_step.h"

namespace cairn::fused {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_neg() &&
         tensor.unsafeGetTensorImpl()->has_storage() && tensor.is_non_overlapping_and_dense();
}

// Dimensions of size 1 may have any stride.
bool have_same_strides(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t i = 0; i < a.dim(); ++i) {
    if (a.size(i) != 1 && a.stride(i) != b.stride(i)) return false;
  }
  return true;
}

bool has_same_order(const at::Tensor& tensor, const at::Tensor& parameter) {
  return tensor.scalar_type() == parameter.scalar_type() && tensor.device() == parameter.device() &&
         is_plain(tensor) && tensor.sizes() == parameter.sizes() &&
         have_same_strides(tensor, parameter) && tensor.data_ptr() != parameter.data_ptr();
}

bool has_kernels(const at::Tensor& parameter) {
  if (parameter.is_cpu()) return rounding_of(parameter.scalar_type()) != Rounding::kUnknown;
  return parameter.is_floating_point() && has_list_kernels(parameter.device());
}

}  // namespace

bool can_fuse(const at::Tensor& parameter, const at::Tensor& gradient, const States& states) {
  return is_plain(parameter) && has_kernels(parameter) &&
         (!gradient.defined() || has_same_order(gradient, parameter)) &&
         std::ranges::all_of(states, [&](const at::Tensor& state) {
           return !state.defined() || has_same_order(state, parameter);
         });
}

Slice slice_of(const at::Tensor& parameter, const at::Tensor& gradient, const States& states) {
  Slice slice{.parameter = parameter.data_ptr(),
              .gradient = gradient.defined() ? gradient.data_ptr() : nullptr,
              .states = {}};
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i].defined()) slice.states[i] = states[i].data_ptr();
  }
  return slice;
}

bool rounds_once(const at::Tensor& parameter) {
  return rounding_of(parameter.scalar_type()) == Rounding::kOnce;
}

}  // namespace cairn::fused
