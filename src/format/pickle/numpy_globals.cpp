// numpy's functions and classes: arrays and scalars of numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "cairn/error.h"

#include "base/checked.h"
#include "format/pickle/globals.h"

namespace cairn::pickle {
namespace {

struct Row {
  std::string_view code;
  DType same_size;  // any torch dtype of this item size, to move elements about
};

constexpr std::array kDTypes = {
    Row{"b1", DType::kBool},      Row{"i1", DType::kInt8},       Row{"i2", DType::kInt16},
    Row{"i4", DType::kInt32},     Row{"i8", DType::kInt64},      Row{"u1", DType::kUInt8},
    Row{"u2", DType::kUInt16},    Row{"u4", DType::kUInt32},     Row{"u8", DType::kUInt64},
    Row{"f2", DType::kFloat16},   Row{"f4", DType::kFloat32},    Row{"f8", DType::kFloat64},
    Row{"c8", DType::kComplex64}, Row{"c16", DType::kComplex128}};

std::string code_of(const NumpyDType& dtype) {
  return std::string(1, dtype.kind) + std::to_string(dtype.item_size);
}

DType dtype_of_same_size(const NumpyDType& dtype) {
  for (const Row& row : kDTypes) {
    if (row.code == code_of(dtype)) return row.same_size;
  }
  throw UnsupportedError("numpy arrays of dtype " + code_of(dtype));
}

// dtype(code, align, copy)
Ref call_dtype(const Call& call) {
  call.expect_args(1, 3);
  const std::string_view code = call.text(0);
  for (const Row& row : kDTypes) {
    if (row.code == code) {
      return call.graph.add(NumpyDType{.kind = code[0], .item_size = item_size(row.same_size)});
    }
  }
  throw UnsupportedError("numpy arrays of dtype " + std::string(code.substr(0, 40)) +
                         " (only those of numbers are read)");
}

// _reconstruct(ndarray, (0,), b'b'): what it is comes with BUILD.
Ref call_reconstruct(const Call& call) {
  call.expect_args(3, 3);
  const auto* type = call.graph.find<const Global*>(call.arg(0));
  if (type == nullptr || (*type)->name != "ndarray") {
    throw UnsupportedError("a numpy array of class " + call.graph.describe(call.arg(0)));
  }
  return call.graph.add(NumpyArrayShell{});
}

const NumpyDType& dtype_argument(const Call& call, std::size_t i) {
  const auto* dtype = call.graph.find<NumpyDType>(call.arg(i));
  if (dtype == nullptr) {
    call.fail("expected a dtype, found " + call.graph.describe(call.arg(i)));
  }
  return *dtype;
}

void to_little_endian(std::string& data, const NumpyDType& dtype) {
  if (!dtype.is_big_endian) return;
  const std::size_t part = dtype.kind == 'c' ? dtype.item_size / 2 : dtype.item_size;
  for (std::size_t at = 0; at + part <= data.size(); at += part) {
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(at),
                 data.begin() + static_cast<std::ptrdiff_t>(at + part));
  }
}

double half_to_double(std::uint16_t half) {
  const int exponent = half >> 10 & 0x1F;
  const int fraction = half & 0x3FF;
  double magnitude = 0;
  if (exponent == 0x1F) {
    magnitude = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(fraction + 0x400, exponent - 25);
  }
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

template <class T>
T from_bytes(const std::string& data) {
  T value;
  std::memcpy(&value, data.data(), sizeof(T));
  return value;
}

Value integer_value(const std::string& data, bool is_signed) {
  std::uint64_t value = 0;
  const bool is_negative = is_signed && (static_cast<unsigned char>(data.back()) & 0x80) != 0;
  if (is_negative) value = ~value;
  std::memcpy(&value, data.data(), data.size());
  return is_signed ? Value(static_cast<std::int64_t>(value)) : Value(value);
}

Value scalar_value(const NumpyDType& dtype, const std::string& data) {
  switch (dtype.kind) {
    case 'b':
      return data[0] != 0;
    case 'i':
    case 'u':
      return integer_value(data, dtype.kind == 'i');
    case 'f':
      if (dtype.item_size == 2) return half_to_double(from_bytes<std::uint16_t>(data));
      if (dtype.item_size == 4) return static_cast<double>(from_bytes<float>(data));
      return from_bytes<double>(data);
    default:
      if (dtype.item_size == 8) return std::complex<double>(from_bytes<std::complex<float>>(data));
      return from_bytes<std::complex<double>>(data);
  }
}

// Python's scalars in place of numpy's, which have no other meaning in a checkpoint. None, bool,
// int and float live in the reference, not in a node.
Ref add_scalar(Graph& graph, const Value& value) {
  if (const auto* v = value.get_if<bool>()) return *v;
  if (const auto* v = value.get_if<std::int64_t>()) return *v;
  if (const auto* v = value.get_if<double>()) return *v;
  return graph.add(value);
}

// scalar(dtype, bytes)
Ref call_scalar(const Call& call) {
  call.expect_args(2, 2);
  const NumpyDType dtype = dtype_argument(call, 0);
  std::string data = call.bytes(1);
  if (data.size() != dtype.item_size) call.fail("the bytes are not of the dtype's size");
  to_little_endian(data, dtype);
  return add_scalar(call.graph, scalar_value(dtype, data));
}

// Reorders a column-major array; `strides` and the rest are in elements.
SharedBytes row_major(const NdArray& array, DType dtype) {
  TensorView tensor = make_tensor(dtype, array.shape, array.bytes);
  std::int64_t stride = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    tensor.strides[d] = stride;
    stride *= tensor.shape[d];
  }
  return tensor.contiguous_bytes();
}

constexpr std::array kNumpyGlobals = {
    Global{"numpy", "ndarray", nullptr},
    Global{"numpy", "dtype", call_dtype},
    Global{"numpy.core.multiarray", "_reconstruct", call_reconstruct},
    Global{"numpy.core.multiarray", "scalar", call_scalar},
};

}  // namespace

std::span<const Global> numpy_globals() { return kNumpyGlobals; }

// (3, '<', None, None, None, -1, -1, 0)
void build_numpy_dtype(const Call& state, NumpyDType& dtype) {
  const std::string_view order = state.text(1);
  if (order != "<" && order != ">" && order != "|" && order != "=") {
    state.fail("a byte order that is none");
  }
  dtype.is_big_endian = order == ">";
}

// (1, shape, dtype, is_fortran, bytes)
Value build_numpy_array(const Call& state) {
  state.expect_args(5, 5);
  const NumpyDType dtype = dtype_argument(state, 2);
  NdArray array;
  array.dtype = code_of(dtype);
  array.shape = state.integers(1);
  const DType same_size = dtype_of_same_size(dtype);
  const bool is_fortran = state.boolean(3);
  auto data = std::make_shared<std::string>(state.bytes(4));

  auto expected = static_cast<std::int64_t>(dtype.item_size);
  for (const std::int64_t size : array.shape) {
    if (size < 0) state.fail("a negative size");
    expected = checked_multiply(expected, size);
  }
  if (static_cast<std::uint64_t>(expected) != data->size()) {
    state.fail("the shape needs " + std::to_string(expected) + " bytes, there are " +
               std::to_string(data->size()));
  }
  to_little_endian(*data, dtype);
  array.bytes = {as_bytes(*data), data};
  if (is_fortran && array.shape.size() > 1 && expected > 0)
    array.bytes = row_major(array, same_size);
  return Value(std::move(array));
}

}  // namespace cairn::pickle
