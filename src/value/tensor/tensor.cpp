#include "cairn/tensor.h"

#include <array>
#include <cstring>

#include "cairn/error.h"

#include "core/checked.h"
#include "value/tensor/element_reader.h"
#include "value/tensor/tensor_pieces.h"

namespace cairn {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::size_t item_size;
};

constexpr std::array kTable = {
    DTypeInfo{DType::kUInt8, "uint8", 1},
    DTypeInfo{DType::kInt8, "int8", 1},
    DTypeInfo{DType::kInt16, "int16", 2},
    DTypeInfo{DType::kInt32, "int32", 4},
    DTypeInfo{DType::kInt64, "int64", 8},
    DTypeInfo{DType::kUInt16, "uint16", 2},
    DTypeInfo{DType::kUInt32, "uint32", 4},
    DTypeInfo{DType::kUInt64, "uint64", 8},
    DTypeInfo{DType::kFloat16, "float16", 2},
    DTypeInfo{DType::kFloat32, "float32", 4},
    DTypeInfo{DType::kFloat64, "float64", 8},
    DTypeInfo{DType::kBFloat16, "bfloat16", 2},
    DTypeInfo{DType::kComplex32, "complex32", 4},
    DTypeInfo{DType::kComplex64, "complex64", 8},
    DTypeInfo{DType::kComplex128, "complex128", 16},
    DTypeInfo{DType::kBool, "bool", 1},
    DTypeInfo{DType::kFloat8E4M3FN, "float8_e4m3fn", 1},
    DTypeInfo{DType::kFloat8E4M3FNUZ, "float8_e4m3fnuz", 1},
    DTypeInfo{DType::kFloat8E5M2, "float8_e5m2", 1},
    DTypeInfo{DType::kFloat8E5M2FNUZ, "float8_e5m2fnuz", 1},
    DTypeInfo{DType::kFloat8E8M0FNU, "float8_e8m0fnu", 1},
    DTypeInfo{DType::kFloat4E2M1FNx2, "float4_e2m1fn_x2", 1},
    DTypeInfo{DType::kQInt8, "qint8", 1},
    DTypeInfo{DType::kQUInt8, "quint8", 1},
    DTypeInfo{DType::kQInt32, "qint32", 4},
    DTypeInfo{DType::kQUInt4x2, "quint4x2", 1},
    DTypeInfo{DType::kQUInt2x4, "quint2x4", 1},
    DTypeInfo{DType::kBits8, "bits8", 1},
    DTypeInfo{DType::kBits16, "bits16", 2},
    DTypeInfo{DType::kBits1x8, "bits1x8", 1},
    DTypeInfo{DType::kBits2x4, "bits2x4", 1},
    DTypeInfo{DType::kBits4x2, "bits4x2", 1},
};

constexpr bool in_enum_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_enum_order());

const DTypeInfo& row(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t item_size(DType dtype) { return row(dtype).item_size; }

std::size_t elements_per_byte(DType dtype) {
  if (dtype == DType::kQUInt4x2) return 2;
  return dtype == DType::kQUInt2x4 ? 4 : 1;
}

std::string_view name(DType dtype) { return row(dtype).name; }

std::optional<DType> find_dtype(std::string_view name) {
  for (const DTypeInfo& r : kTable) {
    if (r.name == name) return r.dtype;
  }
  return std::nullopt;
}

std::int64_t TensorView::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) {
    n = checked_multiply(n, size);
  }
  return n;
}

bool TensorView::is_contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 0) return true;
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected = checked_multiply(expected, shape[d]);
  }
  return true;
}

SharedBytes TensorView::contiguous_bytes() const {
  check_extent(*this);
  const std::uint64_t bytes = byte_size(*this);
  if (bytes == 0) return {};
  if (elements_per_byte(dtype) > 1 || is_contiguous()) {
    return storage->bytes(static_cast<std::uint64_t>(storage_offset) * item_size(dtype), bytes);
  }
  auto copy = std::make_shared<std::vector<std::byte>>(bytes);
  ElementReader(*this).read(0, *copy);
  return {ByteView(*copy), copy};
}

std::uint64_t byte_size(const TensorView& tensor) {
  const auto numel = static_cast<std::uint64_t>(tensor.numel());
  const std::size_t per_byte = elements_per_byte(tensor.dtype);
  if (per_byte > 1) return numel / per_byte + (numel % per_byte == 0 ? 0 : 1);
  return checked_multiply<std::uint64_t>(numel, item_size(tensor.dtype));
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride = checked_multiply(stride, shape[d] > 0 ? shape[d] : 1);
  }
  return strides;
}

TensorView make_tensor(DType dtype, Dims shape, SharedBytes bytes) {
  const auto storage = storage_of(std::move(bytes));
  auto strides = contiguous_strides(shape);
  TensorView tensor{
      .dtype = dtype, .shape = std::move(shape), .strides = std::move(strides), .storage = storage};
  const std::uint64_t need = byte_size(tensor);
  if (need != storage->size()) {
    throw UsageError("make_tensor: the shape needs " + std::to_string(need) +
                     " bytes, but the given size is " + std::to_string(storage->size()));
  }
  return tensor;
}

namespace {

[[noreturn]] void fail_bounds(const std::string& what) {
  throw CorruptError("tensor out of bounds: " + what);
}

void check_part(const TensorView& tensor) {
  const auto& [global_shape, offsets] = *tensor.part;
  if (global_shape.size() != tensor.shape.size() || offsets.size() != tensor.shape.size()) {
    fail_bounds("its part of a larger tensor has another number of dimensions");
  }
  for (std::size_t d = 0; d < offsets.size(); ++d) {
    const bool is_inside = offsets[d] >= 0 && tensor.shape[d] <= global_shape[d] &&
                           offsets[d] <= global_shape[d] - tensor.shape[d];
    if (is_inside) continue;
    fail_bounds("dimension " + std::to_string(d) + " of a part has " +
                std::to_string(tensor.shape[d]) + " elements at " + std::to_string(offsets[d]) +
                " of " + std::to_string(global_shape[d]));
  }
}

// Returns the place in the storage of the furthest element; nullopt for a tensor without elements.
std::optional<std::int64_t> last_element(const TensorView& tensor) {
  if (tensor.shape.size() != tensor.strides.size()) {
    fail_bounds("shape and strides differ in length");
  }
  if (tensor.storage_offset < 0) fail_bounds("negative storage offset");
  bool is_empty = false;
  std::int64_t last = tensor.storage_offset;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] < 0 || tensor.strides[d] < 0) fail_bounds("negative size or stride");
    if (tensor.shape[d] == 0) is_empty = true;
    if (tensor.shape[d] > 1) {
      last = checked_add(last, checked_multiply(tensor.shape[d] - 1, tensor.strides[d]));
    }
  }
  if (is_empty) return std::nullopt;
  return last;
}

}  // namespace

void check_bounds(const TensorView& tensor, std::uint64_t storage_bytes) {
  const std::optional<std::int64_t> last = last_element(tensor);
  if (tensor.part != nullptr) check_part(tensor);
  if (!last) return;
  if (elements_per_byte(tensor.dtype) > 1) {
    // An element's place in a byte is known only in row-major order, beginning with the first byte.
    if (tensor.storage_offset != 0 || !tensor.is_contiguous()) {
      throw UnsupportedError("views of packed elements are not supported, and this one is of " +
                             std::string(name(tensor.dtype)) + "; save a contiguous copy");
    }
    if (byte_size(tensor) > storage_bytes) fail_bounds("the storage is too small");
    return;
  }
  const std::uint64_t elements = storage_bytes / item_size(tensor.dtype);
  if (static_cast<std::uint64_t>(*last) >= elements) {
    fail_bounds("it reaches element " + std::to_string(*last) + ", but its storage has only " +
                std::to_string(elements));
  }
}

void check_bounds(const TensorView& tensor) {
  check_bounds(tensor, tensor.storage ? tensor.storage->size() : 0);
}

Reach reach_of(const TensorView& tensor) {
  check_bounds(tensor);
  const std::optional<std::int64_t> last = last_element(tensor);
  if (!last) return {};
  if (elements_per_byte(tensor.dtype) > 1) return {.offset = 0, .size = byte_size(tensor)};
  const std::size_t bytes = item_size(tensor.dtype);
  const auto first = static_cast<std::uint64_t>(tensor.storage_offset);
  return {.offset = first * bytes, .size = (static_cast<std::uint64_t>(*last) + 1 - first) * bytes};
}

}  // namespace cairn
