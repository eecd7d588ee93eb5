// Bringing into the cache what will be looked at soon: of many tensors it lies all over memory, and
// each would be waited for by itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace cairn {

// As many bytes of it as begin lines of the cache. null: nothing.
inline void prefetch_lines(const void* object, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  if (object == nullptr) return;
  for (std::size_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(static_cast<const char*>(object) + at);
  }
}

// The tensor; its storage is where it says when it has come.
inline void prefetch_tensor(const at::Tensor& tensor) {
  prefetch_lines(tensor.unsafeGetTensorImpl(), sizeof(c10::TensorImpl));
}

// Its storage, when the tensor itself has come.
inline void prefetch_storage(const at::Tensor& tensor) {
  prefetch_lines(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(),
                 sizeof(c10::StorageImpl));
}

}  // namespace cairn
