#include "train/state/device/tensor_load.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "cairn/train/state_dict.h"

#include "io/threads/parallel.h"
#include "train/state/device/device_storage.h"
#include "train/state/device/staging.h"
#include "train/state/device/tensor_bridge.h"
#include "value/tensor/strided.h"

namespace cairn {
namespace {

// conj() and imag() give tensors whose elements differ from the stored ones. Converts both tensors
// to the stored form.
void as_stored(at::Tensor& target, at::Tensor& elements) {
  if (target.is_conj()) {
    target = target.conj();
    elements = elements.conj().resolve_conj();
  }
  if (target.is_neg()) {
    target = at::_neg_view(target);
    elements = elements.neg();
  }
}

std::size_t bytes_of_elements(const at::Tensor& tensor) noexcept {
  return static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
}

bool is_whole_storage(const at::Tensor& tensor) noexcept {
  return tensor.storage_offset() == 0 && tensor.storage().nbytes() == bytes_of_elements(tensor);
}

}  // namespace

TensorLoad::TensorLoad(const at::Tensor& target, const TensorView& elements,
                       const std::function<void()>& before_elements)
    : target_(target), target_is_on_host_(target.device().is_cpu()) {
  if (is_over(elements, target)) return;
  elements_ = near_tensor_of(elements);
  const torch::NoGradGuard no_grad;
  if (elements_.sizes() != target_.sizes()) elements_ = elements_.reshape(target_.sizes());
  is_strided_ = target_.layout() == at::kStrided && !target_.is_quantized();
  if (!is_strided_) return;
  if (before_elements && (target_.is_conj() || target_.is_neg())) before_elements();
  as_stored(target_, elements_);
  arrange(before_elements);
  if (target_is_on_host_)
    target_.data_ptr();  // Forces memory that is copied on write to be copied now.
}

void TensorLoad::arrange(const std::function<void()>& before_elements) {
  is_dense_ = target_.is_non_overlapping_and_dense();
  const bool is_in_order =
      is_dense_ ? elements_.strides() == target_.strides() : elements_.is_contiguous();
  const bool needs_no_cast = elements_.scalar_type() == target_.scalar_type() &&
                             elements_.device() == target_.device() && !elements_.is_conj();
  if (is_in_order && needs_no_cast) return;
  const at::TensorOptions options = target_.options().requires_grad(false);
  at::Tensor fresh = is_dense_ ? at::empty_strided(target_.sizes(), target_.strides(), options)
                               : at::empty(target_.sizes(), options, at::MemoryFormat::Contiguous);
  if (DeviceUploads::takes(fresh, elements_)) {
    upload_source_ = std::exchange(elements_, fresh);
    return;
  }
  if (before_elements) before_elements();
  fresh.copy_(elements_);
  elements_ = fresh;
}

void TensorLoad::upload(std::vector<TensorLoad>& loads) {
  DeviceUploads uploads;
  for (TensorLoad& load : loads) {
    if (load.upload_source_.defined())
      uploads.add(load.elements_, std::exchange(load.upload_source_, {}));
  }
  uploads.finish();
}

bool TensorLoad::may_hand_over() const noexcept {
  if (is_there() || !is_strided_ || !is_dense_ || !is_whole_storage(target_) ||
      !is_whole_storage(elements_)) {
    return false;
  }
  const at::Storage& to = target_.storage();
  const at::Storage& from = elements_.storage();
  return to.use_count() == 1 && from.use_count() == 1 && to.device() == from.device() &&
         to.allocator() == from.allocator() && is_replaceable(to) && is_replaceable(from);
}

void TensorLoad::hand_over() noexcept {
  c10::StorageImpl* const to = target_.storage().unsafeGetStorageImpl();
  c10::StorageImpl* const from = elements_.storage().unsafeGetStorageImpl();
  at::DataPtr fresh = from->set_data_ptr(at::DataPtr());
  from->set_data_ptr_noswap(to->set_data_ptr(std::move(fresh)));
}

bool TensorLoad::needs_libtorch() const noexcept {
  if (is_there()) return false;
  return !is_strided_ || (!target_is_on_host_ && !may_hand_over());
}

void TensorLoad::save_old_elements() {
  if (!needs_libtorch()) return;
  const torch::NoGradGuard no_grad;
  old_elements_ = target_.clone();
}

void TensorLoad::copy() {
  if (!old_elements_.defined()) return;
  const torch::NoGradGuard no_grad;
  target_.copy_(elements_);
}

void TensorLoad::copy_back() noexcept {
  if (!old_elements_.defined()) return;
  try {
    const torch::NoGradGuard no_grad;
    target_.copy_(old_elements_);
  } catch (...) {  // A device that refuses its old elements is lost; its next use reports that.
  }
}

void TensorLoad::put() noexcept {
  const std::size_t bytes = bytes_of_elements(target_);
  if (old_elements_.defined() || bytes == 0) return;
  if (may_hand_over()) {
    hand_over();
  } else if (is_there() || elements_.data_ptr() == target_.data_ptr()) {
    // The elements were read in place.
  } else if (is_dense_) {
    std::memmove(target_.data_ptr(), elements_.data_ptr(), bytes);
  } else {
    const auto span_of = [](at::IntArrayRef numbers) {
      return std::span(numbers.data(), numbers.size());
    };
    copy_strided(
        span_of(target_.sizes()), target_.element_size(),
        {static_cast<std::byte*>(target_.data_ptr()), span_of(target_.strides())},
        {static_cast<const std::byte*>(elements_.data_ptr()), span_of(elements_.strides())});
  }
  // Every change in place does this, so that a backward() that still needs the old elements throws.
  if (!target_.is_inference()) target_.unsafeGetTensorImpl()->bump_version();
}

void TensorLoad::wait_for_devices(const std::vector<TensorLoad>& loads) {
  std::set<std::string> done;
  for (const TensorLoad& load : loads) {
    if (load.target_is_on_host_) continue;
    const c10::Device device = load.target_.device();
    if (!done.insert(device.str()).second) continue;
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.synchronizeStream(guard.getStream(device));
  }
}

void TensorLoad::release() noexcept {
  elements_ = at::Tensor();
  target_ = at::Tensor();
}

void TensorLoad::put_all(std::vector<TensorLoad>& loads) noexcept {
  constexpr std::uint64_t kWorthAThread = std::uint64_t{256} << 10;  // The average size of a load.
  std::uint64_t bytes = 0;
  for (const TensorLoad& load : loads) {
    if (load.target_is_on_host_ && !load.is_there()) bytes += bytes_of_elements(load.elements_);
  }
  const bool is_small = bytes / kWorthAThread < loads.size();
  for (TensorLoad& load : loads) {
    load.put();
    if (is_small) load.release();
  }
  if (!is_small) {
    try {
      for_each_parallel(
          loads.size(), [&](std::size_t i) { loads[i].release(); }, bytes);
    } catch (...) {  // No thread, or no memory for one: release below.
    }
  }
  loads.clear();
}

void apply_all(std::vector<TensorLoad>& loads, const std::function<void()>& last) {
  TensorLoad::upload(loads);
  for (TensorLoad& load : loads) {
    load.save_old_elements();
  }
  TensorLoad::wait_for_devices(loads);
  try {
    for (TensorLoad& load : loads) {
      load.copy();
    }
    TensorLoad::wait_for_devices(loads);
    if (last) last();
  } catch (...) {
    for (TensorLoad& load : loads) {
      load.copy_back();
    }
    throw;
  }
  TensorLoad::put_all(loads);
}

}  // namespace cairn
