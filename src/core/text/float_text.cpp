#include "core/text/float_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace cairn {

std::string python_float_repr(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return text + "inf";

  // "d.ddde±xx", with the shortest digits that round-trip. 17 digits and an exponent fit 32
  // characters.
  std::array<char, 32> buffer;
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::fabs(value),
                                     std::chars_format::scientific);
  const std::string scientific(buffer.data(), written.ptr);
  const std::size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  // Python switches between the two notations at these exponents.
  if (exponent < -4 || exponent >= 16) return text + scientific;

  std::string digits = scientific.substr(0, 1);
  if (e > 2) digits += scientific.substr(2, e - 2);
  if (exponent < 0) {
    return text + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return text + digits + std::string(whole - digits.size(), '0') + ".0";
  return text + digits.insert(whole, 1, '.');
}

}  // namespace cairn
