#include "train/state/gather/seen_tensors.h"

#include <torch/torch.h>

#include <algorithm>

#include "core/per_thread.h"
#include "train/state/device/device_storage.h"

namespace cairn {
namespace {

// Identifies this thread. Thread ids cannot do that: they are reused after a thread ends.
const std::shared_ptr<const int>& token_of_thread() {
  struct Token {
    std::shared_ptr<const int> token = std::make_shared<const int>(0);
  };
  static const PerThread<Token> tokens;
  return tokens.here().token;
}

}  // namespace

SeenTensors::Seen SeenTensors::look_at(const at::Tensor& tensor) {
  const at::Storage& storage = tensor.storage();
  return {.tensor = tensor.unsafeGetTensorImpl(),
          .storage = storage.unsafeGetStorageImpl(),
          .data = storage.data(),
          .bytes = storage.nbytes(),
          .keys = tensor.key_set().raw_repr(),
          .offset = tensor.storage_offset(),
          .type = tensor.scalar_type(),
          .dimensions = static_cast<std::uint32_t>(tensor.dim())};
}

void SeenTensors::add(const at::Tensor& tensor) {
  if (seen_.empty()) thread_ = token_of_thread();
  are_live_ = are_live_ && !tensor.is_conj() && !tensor.is_neg();
  seen_.push_back(look_at(tensor));
  extents_.insert(extents_.end(), tensor.sizes().begin(), tensor.sizes().end());
  extents_.insert(extents_.end(), tensor.strides().begin(), tensor.strides().end());
  const c10::Device device = tensor.storage().device();
  if (!device.is_cpu() && std::find(devices_.begin(), devices_.end(), device) == devices_.end()) {
    devices_.push_back(device);
  }
}

bool SeenTensors::are_of_this_thread() const {
  return seen_.empty() || thread_.lock() == token_of_thread();
}

bool SeenTensors::is_next(Cursor& at, const at::Tensor& tensor) const {
  if (at.tensor == seen_.size() || !tensor.has_storage()) return false;
  const Seen& before = seen_[at.tensor++];
  if (!(before == look_at(tensor))) return false;
  const std::int64_t* const sizes = extents_.data() + at.extent;
  const std::int64_t* const strides = sizes + before.dimensions;
  at.extent += std::size_t{2} * before.dimensions;
  return std::equal(tensor.sizes().begin(), tensor.sizes().end(), sizes) &&
         std::equal(tensor.strides().begin(), tensor.strides().end(), strides);
}

void SeenTensors::note_streams() const {
  for (const c10::Device& device : devices_) {
    note_stream(device);
  }
}

}  // namespace cairn
