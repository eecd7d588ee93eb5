#include <cstring>

#include "cairn/value.h"

#include "core/half_float.h"

namespace cairn {
namespace {

template <class T>
T number_from(ByteView bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

Value integer_from(ByteView bytes, bool is_signed) {
  std::uint64_t value = 0;
  if (is_signed && (bytes.back() & std::byte{0x80}) != std::byte{0}) value = ~value;
  std::memcpy(&value, bytes.data(), bytes.size());
  return is_signed ? Value(static_cast<std::int64_t>(value)) : Value(value);
}

}  // namespace

Value NumpyScalar::number() const {
  switch (type) {
    case 'b':
      return bytes[0] != std::byte{0};
    case 'i':
    case 'u':
      return integer_from(view(), type == 'i');
    case 'f':
      if (size == 2) return static_cast<double>(float_of_half(number_from<std::uint16_t>(view())));
      if (size == 4) return static_cast<double>(number_from<float>(view()));
      return number_from<double>(view());
    default:
      if (size == 8) return std::complex<double>(number_from<std::complex<float>>(view()));
      return number_from<std::complex<double>>(view());
  }
}

}  // namespace cairn
