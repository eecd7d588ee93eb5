#include "format/pickle/encode_leaf.h"

#include <charconv>

#include "cairn/error.h"

namespace cairn::pickle {
namespace {

// dtype(code, False, True) with its state: byte order and what only unusual dtypes have.
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

}  // namespace

void encode_complex(Pickler& out, const std::complex<double>& value) {
  out.global("__builtin__", "complex");
  out.real(value.real());
  out.real(value.imag());
  out.tuple(2);
  out.reduce();
}

void encode_bytes(Pickler& out, const Bytes& value) {
  if (!value.is_bytearray) return out.bytes(value.data);
  out.global("__builtin__", "bytearray");
  if (value.data.empty()) {
    out.empty_tuple();
  } else {
    out.bytes(value.data);
    out.tuple(1);
  }
  out.reduce();
}

void encode_timedelta(Pickler& out, const TimeDelta& value) {
  out.global("datetime", "timedelta");
  out.integer(value.days);
  out.integer(value.seconds);
  out.integer(value.microseconds);
  out.tuple(3);
  out.reduce();
}

void encode_size(Pickler& out, const Size& value) {
  out.global("torch", "Size");
  out.tuple_of(value.dims);
  out.tuple(1);
  out.reduce();
}

// device('cpu') or device('cuda', 1)
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
      throw UnsupportedError("\"" + device + "\" is no device; expected \"cpu\" or \"cuda:1\"");
    }
    out.integer(index);
    out.tuple(2);
  }
  out.reduce();
}

std::uint32_t encode_array(Pickler& out, const NdArray& array) {
  out.global("numpy.core.multiarray", "_reconstruct");
  out.global("numpy", "ndarray");
  out.integer(0);
  out.tuple(1);
  out.bytes("b");
  out.tuple(3);
  const std::uint32_t index = out.reduce();
  out.op(Op::kMark);
  out.integer(1);
  out.tuple_of(array.shape);
  encode_array_dtype(out, array.dtype);
  out.boolean(false);  // row-major
  out.bytes(as_text(array.bytes.view));
  out.tuple_since_mark();
  out.op(Op::kBuild);
  return index;
}

}  // namespace cairn::pickle
