#include "value/tensor/float_convert.h"

#include <algorithm>
#include <cstring>

namespace cairn {
namespace {

// Converts each element with `convert`.
template <class From, class To, class Convert>
void convert_each(ByteView from, std::byte* to, Convert convert) {
  const std::size_t count = from.size() / sizeof(From);
  for (std::size_t i = 0; i < count; ++i) {
    From element;
    std::memcpy(&element, from.data() + i * sizeof(From), sizeof(From));
    const To converted = convert(element);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}

// Converts elements to floats, exactly for all dtypes except float64. float64 is rounded to
// nearest, or with round_to_odd() if the float `is_rounded_again`.
void to_floats(DType from, bool is_rounded_again, ByteView elements, std::byte* floats) {
  switch (from) {
    case DType::kFloat16:
      return convert_each<std::uint16_t, float>(elements, floats, float_of_half);
    case DType::kBFloat16:
      return convert_each<std::uint16_t, float>(elements, floats, float_of_bfloat16);
    case DType::kFloat64:
      if (is_rounded_again) return convert_each<double, float>(elements, floats, round_to_odd);
      return convert_each<double, float>(elements, floats,
                                         [](double v) { return static_cast<float>(v); });
    default:
      std::memcpy(floats, elements.data(), elements.size());
  }
}

void from_floats(DType to, ByteView floats, std::byte* elements) {
  switch (to) {
    case DType::kFloat16:
      return convert_each<float, std::uint16_t>(floats, elements, half_of_float);
    case DType::kBFloat16:
      return convert_each<float, std::uint16_t>(floats, elements, bfloat16_of_float);
    case DType::kFloat64:
      return convert_each<float, double>(floats, elements,
                                         [](float v) { return static_cast<double>(v); });
    default:
      std::memcpy(elements, floats.data(), floats.size());
  }
}

}  // namespace

bool is_convertible_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

void convert_floats(DType from, DType to, ByteView elements, std::vector<std::byte>& converted) {
  const std::size_t count = elements.size() / item_size(from);
  if (from == to) {
    converted.assign(elements.begin(), elements.end());
    return;
  }
  // Works in blocks that stay in the processor's cache between the two steps.
  constexpr std::size_t kBlock = 4096;
  std::vector<std::byte> floats(kBlock * sizeof(float));
  converted.resize(count * item_size(to));
  for (std::size_t done = 0; done < count; done += kBlock) {
    const std::size_t block = std::min(kBlock, count - done);
    to_floats(from, item_size(to) == 2,
              elements.subspan(done * item_size(from), block * item_size(from)), floats.data());
    from_floats(to, ByteView(floats).first(block * sizeof(float)),
                converted.data() + done * item_size(to));
  }
}

}  // namespace cairn
