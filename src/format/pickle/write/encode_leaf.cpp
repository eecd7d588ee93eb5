#include "format/pickle/write/encode_leaf.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "cairn/error.h"

#include "format/pickle/numpy_order.h"

namespace cairn::pickle {
namespace {

std::string_view numpy_module(NumpyNames names) {
  return names == NumpyNames::kNumpy1 ? "numpy.core.multiarray" : "numpy._core.multiarray";
}

// Returns the scalar's dtype() as a text that outlives the pickler.
std::string_view code_of(const NumpyScalar& scalar) {
  static constexpr std::array<std::string_view, 14> kCodes = {
      "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"};
  const std::string code = scalar.dtype();
  const auto* found = std::find(kCodes.begin(), kCodes.end(), code);
  if (found == kCodes.end())
    throw UnsupportedError("cairn cannot write numpy scalars of dtype " + code);
  return *found;
}

// Writes dtype(code, False, True) and its state: the byte order, and fields that only unusual
// dtypes use.
void encode_array_dtype(Pickler& out, std::string_view code) {
  out.global("numpy", "dtype");
  out.text(code);
  out.boolean(false);
  out.boolean(true);
  out.tuple(3);
  out.reduce();
  out.op(Op::kMark);
  out.integer(3);
  out.text(code == "b1" || code == "i1" || code == "u1" ? "|" : "<");
  out.none();
  out.none();
  out.none();
  out.integer(-1);
  out.integer(-1);
  out.integer(0);
  out.tuple_since_mark();
  out.op(Op::kBuild);
}

// Writes an empty array, to which BUILD gives its content: _reconstruct(ndarray, (0,), b'b'), or
// ndarray((0,)).
std::uint32_t encode_empty_array(Pickler& out, NumpyNames names) {
  const bool is_direct = names == NumpyNames::kNone;
  if (!is_direct) out.global(numpy_module(names), "_reconstruct");
  out.global("numpy", "ndarray");
  out.integer(0);
  out.tuple(1);
  if (is_direct) {
    out.tuple(1);
  } else {
    out.bytes("b");
    out.tuple(3);
  }
  return out.reduce();
}

}  // namespace

void encode_complex(Pickler& out, const std::complex<double>& value) {
  out.global("__builtin__", "complex");
  out.real(value.real());
  out.real(value.imag());
  out.tuple(2);
  out.reduce();
}

std::uint32_t encode_bytes(Pickler& out, const Bytes& value) {
  if (!value.is_bytearray) return out.bytes(value.data);
  out.global("__builtin__", "bytearray");
  if (value.data.empty()) {
    out.empty_tuple();
  } else {
    out.bytes(value.data);
    out.tuple(1);
  }
  return out.reduce();
}

void encode_timedelta(Pickler& out, const TimeDelta& value) {
  out.global("datetime", "timedelta");
  out.changing_integer(value.days);
  out.changing_integer(value.seconds);
  out.changing_integer(value.microseconds);
  out.tuple(3);
  out.reduce();
}

void encode_size(Pickler& out, const Size& value) {
  out.global("torch", "Size");
  out.tuple_of(value.dims);
  out.tuple(1);
  out.reduce();
}

// Writes device('cpu') or device('cuda', 1).
void encode_device(Pickler& out, const Device& value) {
  const std::string& device = value.name;
  out.global("torch", "device");
  const std::size_t colon = device.find(':');
  out.text(std::string_view(device).substr(0, colon));
  if (colon == std::string::npos) {
    out.tuple(1);
  } else {
    std::int64_t index = 0;
    const char* end = device.data() + device.size();
    const auto [stop, error] = std::from_chars(device.data() + colon + 1, end, index);
    if (error != std::errc() || stop != end) {
      throw UnsupportedError("\"" + device + "\" is not a device;  expected \"cpu\" or \"cuda:1\"");
    }
    out.integer(index);
    out.tuple(2);
  }
  out.reduce();
}

// Writes a layout as a call with its name. Other constants are attributes of torch.
void encode_constant(Pickler& out, const TorchConstant& value) {
  constexpr std::string_view kTorch = "torch.";
  const std::string_view constant = value.name;
  const bool is_layout = Value(value).type_name() == "layout";
  if (!constant.starts_with(kTorch)) {
    throw UnsupportedError("\"" + value.name + "\" is not a name in torch");
  }
  if (!is_layout) return out.global("torch", constant.substr(kTorch.size()));
  out.global("torch.serialization", "_get_layout");
  out.text(constant);
  out.tuple(1);
  out.reduce();
}

void encode_scalar(Pickler& out, const NumpyScalar& scalar) {
  out.global(numpy_module(scalar.names), "scalar");
  encode_array_dtype(out, code_of(scalar));
  out.bytes(as_text(scalar.view()));
  out.tuple(2);
  out.reduce();
}

std::uint32_t encode_array(Pickler& out, const NdArray& array) {
  const std::uint32_t index = encode_empty_array(out, array.names);
  out.op(Op::kMark);
  out.integer(1);
  out.tuple_of(array.shape);
  encode_array_dtype(out, array.dtype);
  out.boolean(array.is_fortran);
  if (array.is_fortran && array.shape.size() > 1 && !array.bytes.view.empty()) {
    const auto item_size = std::stoul(array.dtype.substr(1));
    out.bytes(as_text(column_major(array.bytes, array.shape, item_size).view));
  } else {
    out.bytes(as_text(array.bytes.view));
  }
  out.tuple_since_mark();
  out.op(Op::kBuild);
  return index;
}

}  // namespace cairn::pickle
