// Converts tensors of libtorch to tensors of the core and back, without copying where possible.
#include "train/state/device/tensor_bridge.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "cairn/detail/node_arena.h"
#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "core/per_thread.h"
#include "core/pointer_map.h"
#include "train/state/device/device_storage.h"
#include "value/tensor/element_reader.h"
#include "value/tensor/tensor_pieces.h"

namespace cairn {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view torch_name;  // c10::toString()
};

// By name, not by enumerator: the enumerators that exist depend on the libtorch compiled against.
constexpr std::array kDTypes = {
    DTypeRow{DType::kUInt8, "Byte"},
    DTypeRow{DType::kInt8, "Char"},
    DTypeRow{DType::kInt16, "Short"},
    DTypeRow{DType::kInt32, "Int"},
    DTypeRow{DType::kInt64, "Long"},
    DTypeRow{DType::kUInt16, "UInt16"},
    DTypeRow{DType::kUInt32, "UInt32"},
    DTypeRow{DType::kUInt64, "UInt64"},
    DTypeRow{DType::kFloat16, "Half"},
    DTypeRow{DType::kFloat32, "Float"},
    DTypeRow{DType::kFloat64, "Double"},
    DTypeRow{DType::kBFloat16, "BFloat16"},
    DTypeRow{DType::kComplex32, "ComplexHalf"},
    DTypeRow{DType::kComplex64, "ComplexFloat"},
    DTypeRow{DType::kComplex128, "ComplexDouble"},
    DTypeRow{DType::kBool, "Bool"},
    DTypeRow{DType::kFloat8E4M3FN, "Float8_e4m3fn"},
    DTypeRow{DType::kFloat8E4M3FNUZ, "Float8_e4m3fnuz"},
    DTypeRow{DType::kFloat8E5M2, "Float8_e5m2"},
    DTypeRow{DType::kFloat8E5M2FNUZ, "Float8_e5m2fnuz"},
    DTypeRow{DType::kFloat8E8M0FNU, "Float8_e8m0fnu"},
    DTypeRow{DType::kFloat4E2M1FNx2, "Float4_e2m1fn_x2"},
};

constexpr std::size_t kScalarTypes = static_cast<std::size_t>(at::ScalarType::NumOptions);

// The table indexed by both enumerators, made once.
struct DTypeTables {
  DTypeTables() {
    of_core.fill(at::ScalarType::Undefined);
    for (std::size_t i = 0; i < kScalarTypes; ++i) {
      const std::string_view torch_name = c10::toString(static_cast<at::ScalarType>(i));
      for (const DTypeRow& row : kDTypes) {
        if (row.torch_name != torch_name) continue;
        of_torch[i] = row.dtype;
        of_core[static_cast<std::size_t>(row.dtype)] = static_cast<at::ScalarType>(i);
      }
    }
  }

  std::array<std::optional<DType>, kScalarTypes> of_torch = {};
  std::array<at::ScalarType, 256> of_core = {};  // Undefined: this libtorch has no such type.
};

const DTypeTables& dtype_tables() {
  static const DTypeTables tables;
  return tables;
}

DType dtype_of(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  const auto index = static_cast<std::size_t>(type);
  if (index < kScalarTypes) {
    if (const std::optional<DType> dtype = dtype_tables().of_torch[index]) return *dtype;
  }
  throw UnsupportedError("tensors of type " + std::string(c10::toString(type)) +
                         " cannot be saved; convert them first, or save their parts");
}

// A storage of libtorch on the CPU, and the view of its bytes, in one object.
class TorchStorage final : public Storage, public std::enable_shared_from_this<TorchStorage> {
 public:
  TorchStorage(c10::Storage memory, std::string location)
      : Storage(memory.nbytes(), std::move(location)),
        memory_(std::move(memory)),
        bytes_(static_cast<const std::byte*>(memory_.data()), memory_.nbytes()) {}

  std::optional<SharedBytes> try_view() const override {
    return SharedBytes{bytes_, shared_from_this()};
  }
  const c10::Storage& memory() const { return memory_; }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    std::memcpy(into.data(), bytes_.data() + offset, into.size());
  }

 private:
  const c10::Storage memory_;
  const ByteView bytes_;
};

// The Storages that view_of() returned and that are still in use. The next tensor of the same
// memory gets the same Storage, since tied weights must be one record of a file. The entries own
// nothing. Each thread has its own cache, so no locks are needed.
class LiveStorages {
 public:
  std::shared_ptr<const Storage> of(const at::Storage& memory) {
    if (entries_.size() >= sweep_at_) sweep();
    Entry& entry = *entries_.try_emplace(memory.unsafeGetStorageImpl()).first;
    // A live entry keeps its StorageImpl alive, so the key cannot have been reused. But a storage
    // may have been resized in place.
    auto known = entry.storage.lock();
    if (known && known->size() == memory.nbytes() && entry.data == memory.data()) {
      if (!memory.device().is_cpu()) note_stream(memory.device());
      return known;
    }
    auto made = memory.device().is_cpu() ? storage_over(memory) : device_storage(memory);
    entry = {made, memory.data()};
    return made;
  }

  void sweep() {
    entries_.erase_if([](const Entry& entry) { return entry.storage.expired(); });
    sweep_at_ = std::max<std::size_t>(64, 2 * entries_.size());
  }

 private:
  struct Entry {
    std::weak_ptr<const Storage> storage = {};
    const void* data = nullptr;
  };

  PointerMap<Entry> entries_;
  std::size_t sweep_at_ = 64;
};

LiveStorages& live_storages() {
  static const PerThread<LiveStorages> storages;
  return storages.here();
}

bool is_aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

}  // namespace

void forget_dead_storages() { live_storages().sweep(); }

std::shared_ptr<const Storage> storage_over(const c10::Storage& memory, std::string location) {
  return std::allocate_shared<const TorchStorage>(detail::NodeAllocator<TorchStorage>(), memory,
                                                  std::move(location));
}

const c10::StorageImpl* live_memory_of(const Storage& storage) {
  if (typeid(storage) != typeid(TorchStorage)) return device_memory_of(storage);
  return static_cast<const TorchStorage&>(storage).memory().unsafeGetStorageImpl();
}

at::Tensor tensor_over(const c10::Storage& memory, const StridedPlace& place,
                       const at::TensorOptions& options) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(memory), c10::DispatchKeySet(options.computeDispatchKey()), options.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(place.sizes, place.strides, place.offset);
  return tensor;
}

bool is_over(const TensorView& view, const at::Tensor& tensor) {
  if (view.storage == nullptr || !tensor.has_storage()) return false;
  const c10::StorageImpl* const memory = live_memory_of(*view.storage);
  if (memory != tensor.storage().unsafeGetStorageImpl()) return false;
  const bool is_plain = tensor.layout() == at::kStrided && !tensor.is_quantized() &&
                        !tensor.is_conj() && !tensor.is_neg() && view.quantizer == nullptr;
  return is_plain && view.storage_offset == tensor.storage_offset() && tensor.numel() != 0 &&
         std::ranges::equal(tensor.sizes(), view.shape) &&
         std::ranges::equal(tensor.strides(), view.strides) &&
         scalar_type_of(view.dtype) == tensor.scalar_type();
}

bool is_alike(const TensorView& view, const at::Tensor& tensor) {
  const bool is_plain = tensor.layout() == at::kStrided && !tensor.is_quantized() &&
                        !tensor.is_conj() && !tensor.is_neg() && view.quantizer == nullptr &&
                        view.part == nullptr;
  if (!is_plain ||
      dtype_tables().of_core[static_cast<std::size_t>(view.dtype)] != tensor.scalar_type()) {
    return false;
  }
  return is_aligned(tensor.data_ptr(), item_size(view.dtype)) &&
         std::ranges::equal(tensor.sizes(), view.shape) &&
         std::ranges::equal(tensor.strides(), view.strides) &&
         tensor.is_non_overlapping_and_dense();
}

at::ScalarType scalar_type_of(DType dtype) {
  const at::ScalarType type = dtype_tables().of_core[static_cast<std::size_t>(dtype)];
  if (type != at::ScalarType::Undefined) return type;
  throw UnsupportedError("this libtorch has no tensors of dtype " + std::string(name(dtype)) +
                         "; read their bytes with TensorView, or use a newer libtorch");
}

TensorView view_of(const at::Tensor& tensor) {
  if (!tensor.defined()) throw UsageError("an undefined tensor cannot be saved");
  if (tensor.layout() != at::kStrided) {
    throw UnsupportedError("a sparse tensor cannot be saved; save its indices and values, or " +
                           std::string("to_dense()"));
  }
  if (tensor.is_quantized()) {
    throw UnsupportedError("a quantized tensor cannot be saved; save int_repr(), scale and zero " +
                           std::string("point, or dequantize()"));
  }
  if (tensor.is_meta()) {
    throw UsageError("a tensor of the meta device cannot be saved: it has a shape, and no " +
                     std::string("elements; give it some first (to_empty(), and load or fill it)"));
  }
  if (!tensor.has_storage()) {
    throw UsageError("a tensor on " + tensor.device().str() + " cannot be saved from there: its " +
                     "memory cannot be looked at; save its .cpu()");
  }
  const bool is_as_stored = !tensor.is_conj() && !tensor.is_neg();
  const at::Tensor resolved =
      is_as_stored ? at::Tensor() : tensor.detach().resolve_conj().resolve_neg();
  const at::Tensor& stored = is_as_stored ? tensor : resolved;
  TensorView view;
  view.dtype = dtype_of(stored);
  view.shape.assign(stored.sizes().begin(), stored.sizes().end());
  view.strides.assign(stored.strides().begin(), stored.strides().end());
  view.storage_offset = stored.storage_offset();
  view.storage = live_storages().of(stored.storage());
  return view;
}

at::Tensor near_tensor_of(const TensorView& view) {
  const bool has_elements = view.storage != nullptr && view.numel() != 0;
  const c10::StorageImpl* const found =
      has_elements ? fresh_device_memory_of(*view.storage) : nullptr;
  if (found == nullptr || view.quantizer != nullptr) return tensor_of(view, /*share=*/true);
  check_bounds(view);
  auto* const memory = const_cast<c10::StorageImpl*>(found);  // NOLINT: the storage keeps it
  const c10::Storage storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(memory));
  return tensor_over(storage, {view.shape, view.strides, view.storage_offset},
                     at::TensorOptions(scalar_type_of(view.dtype)).device(storage.device()));
}

at::Tensor tensor_of(const TensorView& view, bool share) {
  if (view.quantizer != nullptr) {
    throw UnsupportedError("a quantized tensor is not loaded into libtorch; load it with PyTorch " +
                           std::string("and save its dequantize()"));
  }
  const at::TensorOptions options = at::TensorOptions(scalar_type_of(view.dtype));
  const std::size_t size = item_size(view.dtype);
  share ? check_bounds(view) : check_extent(view);  // A copy needs memory for each element.
  if (view.numel() == 0) return at::empty(view.shape, options);
  if (typeid(*view.storage) == typeid(TorchStorage)) {
    const auto& memory = static_cast<const TorchStorage&>(*view.storage).memory();
    const auto* const begin = static_cast<const std::byte*>(memory.data());
    if (is_aligned(begin + view.storage_offset * size, size)) {
      const at::Tensor tensor =
          tensor_over(memory, {view.shape, view.strides, view.storage_offset}, options);
      return share ? tensor : tensor.clone();
    }
  }
  const Reach reach = reach_of(view);
  const SharedBytes loaded = view.storage->bytes(reach.offset, reach.size);
  const std::byte* const data = loaded.view.data();
  if (!is_aligned(data, size)) {  // PyTorch did not write this file.
    const SharedBytes bytes = view.contiguous_bytes();
    at::Tensor copy = at::empty(view.shape, options);
    std::memcpy(copy.data_ptr(), bytes.view.data(), bytes.view.size());
    return copy;
  }
  at::Tensor shared = at::from_blob(
      const_cast<std::byte*>(data), view.shape, view.strides,
      [keep = loaded.owner](void*) mutable { keep.reset(); }, options);
  return share ? shared : shared.clone();
}

}  // namespace cairn
