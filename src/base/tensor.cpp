#include "cairn/tensor.h"

#include <array>
#include <cstring>

#include "cairn/error.h"

#include "base/checked.h"
#include "base/tensor_pieces.h"

namespace cairn {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t item_size;
};

constexpr std::array kTable = {
    Row{DType::kUInt8, "uint8", 1},
    Row{DType::kInt8, "int8", 1},
    Row{DType::kInt16, "int16", 2},
    Row{DType::kInt32, "int32", 4},
    Row{DType::kInt64, "int64", 8},
    Row{DType::kUInt16, "uint16", 2},
    Row{DType::kUInt32, "uint32", 4},
    Row{DType::kUInt64, "uint64", 8},
    Row{DType::kFloat16, "float16", 2},
    Row{DType::kFloat32, "float32", 4},
    Row{DType::kFloat64, "float64", 8},
    Row{DType::kBFloat16, "bfloat16", 2},
    Row{DType::kComplex32, "complex32", 4},
    Row{DType::kComplex64, "complex64", 8},
    Row{DType::kComplex128, "complex128", 16},
    Row{DType::kBool, "bool", 1},
    Row{DType::kFloat8E4M3FN, "float8_e4m3fn", 1},
    Row{DType::kFloat8E4M3FNUZ, "float8_e4m3fnuz", 1},
    Row{DType::kFloat8E5M2, "float8_e5m2", 1},
    Row{DType::kFloat8E5M2FNUZ, "float8_e5m2fnuz", 1},
    Row{DType::kFloat8E8M0FNU, "float8_e8m0fnu", 1},
    Row{DType::kFloat4E2M1FNx2, "float4_e2m1fn_x2", 1},
    Row{DType::kQInt8, "qint8", 1},
    Row{DType::kQUInt8, "quint8", 1},
    Row{DType::kQInt32, "qint32", 4},
    Row{DType::kQUInt4x2, "quint4x2", 1},
    Row{DType::kQUInt2x4, "quint2x4", 1},
    Row{DType::kBits8, "bits8", 1},
    Row{DType::kBits16, "bits16", 2},
    Row{DType::kBits1x8, "bits1x8", 1},
    Row{DType::kBits2x4, "bits2x4", 1},
    Row{DType::kBits4x2, "bits4x2", 1},
};

constexpr bool in_enum_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_enum_order());

const Row& row(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }

// Calls `visit(element offset)` for every element in row-major order.
template <class Visit>
void for_each_element(const TensorView& tensor, Visit visit) {
  const std::size_t rank = tensor.shape.size();
  std::vector<std::int64_t> index(rank, 0);
  std::int64_t offset = tensor.storage_offset;
  for (std::int64_t left = tensor.numel(); left > 0; --left) {
    visit(offset);
    for (std::size_t d = rank; d-- > 0;) {
      offset += tensor.strides[d];
      if (++index[d] < tensor.shape[d]) break;
      offset -= tensor.strides[d] * tensor.shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

std::size_t item_size(DType dtype) { return row(dtype).item_size; }
std::string_view name(DType dtype) { return row(dtype).name; }

std::optional<DType> find_dtype(std::string_view name) {
  for (const Row& r : kTable) {
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
  const std::size_t item = item_size(dtype);
  const auto bytes =
      static_cast<std::size_t>(checked_multiply(numel(), static_cast<std::int64_t>(item)));
  if (bytes == 0) return {};
  const SharedBytes loaded = storage->bytes();
  const ByteView all = loaded.view;
  if (is_contiguous()) {
    return loaded.part(static_cast<std::size_t>(storage_offset) * item, bytes);
  }
  auto copy = std::make_shared<std::vector<std::byte>>(bytes);
  std::byte* out = copy->data();
  for_each_element(*this, [&](std::int64_t offset) {
    std::memcpy(out, all.data() + static_cast<std::size_t>(offset) * item, item);
    out += item;
  });
  return {ByteView(*copy), copy};
}

Storage::Storage(SharedBytes bytes, std::string location)
    : size_(bytes.view.size()), bytes_(std::move(bytes)), location_(std::move(location)) {}

Storage::Storage(std::uint64_t size, Load load, std::string location)
    : size_(size), load_(std::move(load)), location_(std::move(location)) {}

SharedBytes Storage::bytes() const {
  if (!load_) return bytes_;
  SharedBytes loaded = load_();
  if (loaded.view.size() != size_) {
    throw CorruptError("a storage of " + std::to_string(size_) + " bytes came with " +
                       std::to_string(loaded.view.size()));
  }
  return loaded;
}

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride = checked_multiply(stride, shape[d] > 0 ? shape[d] : 1);
  }
  return strides;
}

TensorView make_tensor(DType dtype, std::vector<std::int64_t> shape, SharedBytes bytes) {
  const auto storage = std::make_shared<const Storage>(std::move(bytes));
  auto strides = contiguous_strides(shape);
  TensorView tensor{
      .dtype = dtype, .shape = std::move(shape), .strides = std::move(strides), .storage = storage};
  const auto need = static_cast<std::uint64_t>(tensor.numel()) * item_size(dtype);
  if (need != storage->size()) {
    throw UsageError("make_tensor: the shape needs " + std::to_string(need) + " bytes, given " +
                     std::to_string(storage->size()));
  }
  return tensor;
}

void check_bounds(const TensorView& tensor) {
  const auto fail = [](const std::string& what) {
    throw CorruptError("tensor out of bounds: " + what);
  };
  if (tensor.shape.size() != tensor.strides.size()) fail("shape and strides differ in length");
  if (tensor.storage_offset < 0) fail("negative storage offset");
  bool is_empty = false;
  std::int64_t last = tensor.storage_offset;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] < 0 || tensor.strides[d] < 0) fail("negative size or stride");
    if (tensor.shape[d] == 0) is_empty = true;
    if (tensor.shape[d] > 1) {
      last = checked_add(last, checked_multiply(tensor.shape[d] - 1, tensor.strides[d]));
    }
  }
  if (is_empty) return;
  if (!tensor.storage) fail("no storage");
  const std::uint64_t elements = tensor.storage->size() / item_size(tensor.dtype);
  if (static_cast<std::uint64_t>(last) >= elements) {
    fail("element " + std::to_string(last) + " of a storage of " + std::to_string(elements));
  }
}

}  // namespace cairn
