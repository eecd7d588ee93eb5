#include "value/numbers.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/half_float.h"
#include "core/little_endian.h"

namespace cairn {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A float of up to 8 bits: sign, exponent, mantissa, from the highest bit down.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  enum class Special : std::uint8_t { kNone, kIeee, kAllOnesIsNaN, kNegativeZeroIsNaN } special;
};
using Special = SmallFloat::Special;

constexpr SmallFloat kE4M3FN = {4, 3, 7, Special::kAllOnesIsNaN};
constexpr SmallFloat kE4M3FNUZ = {4, 3, 8, Special::kNegativeZeroIsNaN};
constexpr SmallFloat kE5M2 = {5, 2, 15, Special::kIeee};
constexpr SmallFloat kE5M2FNUZ = {5, 2, 16, Special::kNegativeZeroIsNaN};
constexpr SmallFloat kE2M1 = {2, 1, 1, Special::kNone};

double decode(unsigned bits, const SmallFloat& format) {
  const unsigned mantissa_mask = (1U << format.mantissa_bits) - 1;
  const unsigned exponent_mask = (1U << format.exponent_bits) - 1;
  const unsigned mantissa = bits & mantissa_mask;
  const unsigned exponent = (bits >> format.mantissa_bits) & exponent_mask;
  const bool negative = (bits >> (format.mantissa_bits + format.exponent_bits)) != 0;
  const bool is_top = exponent == exponent_mask;
  if (format.special == Special::kNegativeZeroIsNaN && negative && mantissa + exponent == 0) {
    return kNaN;
  }
  if (format.special == Special::kAllOnesIsNaN && is_top && mantissa == mantissa_mask) return kNaN;
  double value = 0;
  if (format.special == Special::kIeee && is_top) {
    if (mantissa != 0) return kNaN;
    value = kInfinity;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1U << format.mantissa_bits),
                       static_cast<int>(exponent) - format.bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

// Makes one number of each T, with `convert`.
template <class T, class Convert>
void decode_each(ByteView bytes, std::vector<double>& numbers, Convert convert) {
  const std::size_t count = bytes.size() / sizeof(T);
  numbers.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    numbers[i] = convert(value);
  }
}

template <class T>
void decode_plain(ByteView bytes, std::vector<double>& numbers) {
  decode_each<T>(bytes, numbers, [](T value) { return static_cast<double>(value); });
}

// Uses a table of the 2^`bits` values. A byte has several numbers if bits < 8.
template <class Convert>
void decode_table(ByteView bytes, std::vector<double>& numbers, int bits, Convert convert) {
  std::array<double, 256> table{};
  const unsigned values = 1U << bits;
  for (unsigned i = 0; i < values; ++i) {
    table[i] = convert(i);
  }
  numbers.clear();
  numbers.reserve(bytes.size() * static_cast<std::size_t>(8 / bits));
  for (const std::byte byte : bytes) {
    for (int shift = 0; shift < 8; shift += bits) {
      numbers.push_back(table[(std::to_integer<unsigned>(byte) >> shift) & (values - 1)]);
    }
  }
}

void decode_small_float(ByteView bytes, std::vector<double>& numbers, const SmallFloat& format) {
  const int bits = 1 + format.exponent_bits + format.mantissa_bits;
  decode_table(bytes, numbers, bits, [&](unsigned value) { return decode(value, format); });
}

void decode_unsigned(ByteView bytes, std::vector<double>& numbers, int bits) {
  decode_table(bytes, numbers, bits, [](unsigned value) { return static_cast<double>(value); });
}

// Returns false for the dtypes that decode_other() decodes.
bool decode_integer(DType dtype, ByteView bytes, std::vector<double>& numbers) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kQUInt8:
    case DType::kBits8:
      decode_plain<std::uint8_t>(bytes, numbers);
      return true;
    case DType::kInt8:
    case DType::kQInt8:
      decode_plain<std::int8_t>(bytes, numbers);
      return true;
    case DType::kInt16:
      decode_plain<std::int16_t>(bytes, numbers);
      return true;
    case DType::kInt32:
    case DType::kQInt32:
      decode_plain<std::int32_t>(bytes, numbers);
      return true;
    case DType::kInt64:
      decode_plain<std::int64_t>(bytes, numbers);
      return true;
    case DType::kUInt16:
    case DType::kBits16:
      decode_plain<std::uint16_t>(bytes, numbers);
      return true;
    case DType::kUInt32:
      decode_plain<std::uint32_t>(bytes, numbers);
      return true;
    case DType::kUInt64:
      decode_plain<std::uint64_t>(bytes, numbers);
      return true;
    case DType::kBool:
      decode_each<std::uint8_t>(bytes, numbers, [](std::uint8_t v) { return v != 0 ? 1.0 : 0.0; });
      return true;
    default:
      return false;
  }
}

void decode_other(DType dtype, ByteView bytes, std::vector<double>& numbers) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kComplex32:
      return decode_each<std::uint16_t>(bytes, numbers, float_of_half);
    case DType::kBFloat16:
      return decode_each<std::uint16_t>(bytes, numbers, float_of_bfloat16);
    case DType::kFloat32:
    case DType::kComplex64:
      return decode_plain<float>(bytes, numbers);
    case DType::kFloat8E4M3FN:
      return decode_small_float(bytes, numbers, kE4M3FN);
    case DType::kFloat8E4M3FNUZ:
      return decode_small_float(bytes, numbers, kE4M3FNUZ);
    case DType::kFloat8E5M2:
      return decode_small_float(bytes, numbers, kE5M2);
    case DType::kFloat8E5M2FNUZ:
      return decode_small_float(bytes, numbers, kE5M2FNUZ);
    case DType::kFloat4E2M1FNx2:
      return decode_small_float(bytes, numbers, kE2M1);
    case DType::kFloat8E8M0FNU:
      return decode_table(bytes, numbers, 8, [](unsigned value) {
        return value == 255 ? kNaN : std::ldexp(1, static_cast<int>(value) - 127);
      });
    case DType::kQUInt4x2:
    case DType::kBits4x2:
      return decode_unsigned(bytes, numbers, 4);
    case DType::kQUInt2x4:
    case DType::kBits2x4:
      return decode_unsigned(bytes, numbers, 2);
    case DType::kBits1x8:
      return decode_unsigned(bytes, numbers, 1);
    default:  // kFloat64, kComplex128
      return decode_plain<double>(bytes, numbers);
  }
}

}  // namespace

std::size_t numbers_per_element(DType dtype) {
  switch (dtype) {
    case DType::kComplex32:
    case DType::kComplex64:
    case DType::kComplex128:
    case DType::kFloat4E2M1FNx2:
    case DType::kQUInt4x2:
    case DType::kBits4x2:
      return 2;
    case DType::kQUInt2x4:
    case DType::kBits2x4:
      return 4;
    case DType::kBits1x8:
      return 8;
    default:
      return 1;
  }
}

void decode_numbers(DType dtype, ByteView elements, std::vector<double>& numbers) {
  if (!decode_integer(dtype, elements, numbers)) decode_other(dtype, elements, numbers);
}

}  // namespace cairn
