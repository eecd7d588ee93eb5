// numpy's functions and classes: arrays and scalars of numbers.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "cairn/error.h"

#include "core/checked.h"
#include "format/pickle/globals/foreign_objects.h"
#include "format/pickle/globals/globals.h"
#include "format/pickle/numpy_order.h"

namespace cairn::pickle {
namespace {

struct Row {
  std::string_view code;
  DType same_size;  // any torch dtype of this item size
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

void check_is_number(const NumpyDType& dtype) {
  for (const Row& row : kDTypes) {
    if (row.code == code_of(dtype)) return;
  }
  throw UnsupportedError("cairn does not read numpy arrays of dtype " + code_of(dtype));
}

// Handles dtype(code, align, copy).
Ref call_dtype(const Call& call) {
  call.expect_args(1, 3);
  const std::string_view code = call.text(0);
  for (const Row& row : kDTypes) {
    if (row.code == code) {
      return call.graph.add(NumpyDType{.kind = code[0], .item_size = item_size(row.same_size)});
    }
  }
  throw UnsupportedError("cairn does not read numpy arrays of dtype " +
                         std::string(code.substr(0, 40)) + " (only arrays of numbers)");
}

NumpyNames names_of(const Global& global) {
  return global.module.starts_with("numpy._core") ? NumpyNames::kNumpy2 : NumpyNames::kNumpy1;
}

// Handles _reconstruct(ndarray, (0,), b'b'). The content comes with BUILD.
Ref call_reconstruct(const Call& call) {
  call.expect_args(3, 3);
  const auto* type = call.graph.find<const Global*>(call.arg(0));
  if (type == nullptr || (*type)->name != "ndarray") {
    throw UnsupportedError("cairn does not read numpy arrays of class " +
                           call.graph.describe(call.arg(0)));
  }
  return call.graph.add(
      NumpyArrayShell{{call.arg(0), call.arg(1), call.arg(2)}, names_of(call.global)});
}

// Handles ndarray((0,)). This call is in files that should not depend on the name of numpy's inner
// module.
Ref call_ndarray(const Call& call) {
  const auto* shape =
      call.args.size() == 1 ? call.graph.find<Container>(call.args.front()) : nullptr;
  const bool is_empty = shape != nullptr && shape->kind == Container::Kind::kTuple &&
                        shape->items.size() == 1 &&
                        call.graph.integer(shape->items[0]) == std::optional<std::int64_t>(0);
  if (!is_empty) throw UnsupportedError("a numpy array that numpy did not pickle is not supported");
  return call.graph.add(NumpyArrayShell{{call.arg(0), None{}, None{}}, NumpyNames::kNone});
}

const NumpyDType& dtype_argument(const Call& call, std::size_t i) {
  const auto* dtype = call.graph.find<NumpyDType>(call.arg(i));
  if (dtype == nullptr && is_foreign(call.graph, call.arg(i))) {
    throw UnsupportedError("numpy objects other than numbers are not supported");
  }
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

// Handles scalar(dtype, bytes).
Ref call_scalar(const Call& call) {
  call.expect_args(2, 2);
  const NumpyDType dtype = dtype_argument(call, 0);
  std::string data = call.bytes(1);
  if (data.size() != dtype.item_size) call.fail("the bytes are not of the dtype's size");
  to_little_endian(data, dtype);
  NumpyScalar scalar{.type = dtype.kind,
                     .size = static_cast<std::uint8_t>(dtype.item_size),
                     .names = names_of(call.global)};
  std::memcpy(scalar.bytes.data(), data.data(), data.size());
  return call.graph.add(Value(scalar));
}

// The bytes of an array as numpy gives them, and their arrangement.
struct ArrayBytes {
  NumpyDType dtype;
  Dims shape;
  bool is_fortran = false;
  std::string data;
};

Value array_value(const Call& call, ArrayBytes from, NumpyNames names) {
  check_is_number(from.dtype);
  NdArray array{.dtype = code_of(from.dtype),
                .shape = std::move(from.shape),
                .bytes = {},
                .is_fortran = from.is_fortran,
                .names = names};
  auto expected = static_cast<std::int64_t>(from.dtype.item_size);
  for (const std::int64_t size : array.shape) {
    if (size < 0) call.fail("a size is negative");
    expected = checked_multiply(expected, size);
  }
  if (static_cast<std::uint64_t>(expected) != from.data.size()) {
    call.fail("the shape needs " + std::to_string(expected) + " bytes, but there are " +
              std::to_string(from.data.size()));
  }
  to_little_endian(from.data, from.dtype);
  const auto owner = std::make_shared<const std::string>(std::move(from.data));
  array.bytes = {as_bytes(*owner), owner};
  if (array.is_fortran && array.shape.size() > 1 && expected > 0) {
    array.bytes = row_major(array.bytes, array.shape, from.dtype.item_size);
  }
  return Value(std::move(array));
}

// Handles _frombuffer(bytes, dtype, shape, order).
Ref call_frombuffer(const Call& call) {
  call.expect_args(4, 4);
  const NumpyDType dtype = dtype_argument(call, 1);
  const std::string_view order = call.text(3);
  if (order != "C" && order != "F") call.fail("the order is neither \"C\" nor \"F\"");
  return call.graph.add(array_value(call, {dtype, call.integers(2), order == "F", call.bytes(0)},
                                    names_of(call.global)));
}

constexpr std::array kNumpyGlobals = {
    Global{"numpy", "ndarray", call_ndarray},
    Global{"numpy", "dtype", call_dtype},
    Global{"numpy.core.multiarray", "_reconstruct", call_reconstruct},
    Global{"numpy._core.multiarray", "_reconstruct", call_reconstruct},  // numpy 2
    Global{"numpy.core.multiarray", "scalar", call_scalar},
    Global{"numpy._core.multiarray", "scalar", call_scalar},
    Global{"numpy.core.numeric", "_frombuffer", call_frombuffer},  // pickle protocol 5
    Global{"numpy._core.numeric", "_frombuffer", call_frombuffer},
};

}  // namespace

std::span<const Global> numpy_globals() { return kNumpyGlobals; }

// `state` is (3, '<', None, None, None, -1, -1, 0).
void build_numpy_dtype(const Call& state, NumpyDType& dtype) {
  const std::string_view order = state.text(1);
  if (order != "<" && order != ">" && order != "|" && order != "=") {
    state.fail("the byte order is none of <, >, | and =");
  }
  dtype.is_big_endian = order == ">";
}

// `state` is (1, shape, dtype, is_fortran, bytes).
Value build_numpy_array(const Call& state, NumpyNames names) {
  state.expect_args(5, 5);
  const NumpyDType dtype = dtype_argument(state, 2);
  return array_value(state, {dtype, state.integers(1), state.boolean(3), state.bytes(4)}, names);
}

}  // namespace cairn::pickle
