// The text of an integer of any size.
#include <algorithm>

#include "cairn/value.h"

namespace cairn {
namespace {

// Python's own limit (sys.set_int_max_str_digits), for the same reason: making decimal digits takes
// time that grows with the square of their number.
constexpr std::size_t kMaxDigits = 4300;
constexpr std::size_t kMaxDecimalBytes = 1800;  // 4,335 digits

// Replaces the number by its absolute value. Returns whether it was negative.
bool make_positive(std::string& twos_complement) {
  if (twos_complement.empty() || static_cast<signed char>(twos_complement.back()) >= 0) {
    return false;
  }
  unsigned carry = 1;
  for (char& c : twos_complement) {
    const unsigned v = (~static_cast<unsigned>(static_cast<unsigned char>(c)) & 0xFF) + carry;
    c = static_cast<char>(v);
    carry = v >> 8;
  }
  return true;
}

std::string decimal_digits(const std::string& magnitude) {
  std::vector<std::uint32_t> digits;  // base 10^9, least significant first
  for (std::size_t i = magnitude.size(); i-- > 0;) {
    std::uint64_t carry = static_cast<unsigned char>(magnitude[i]);
    for (auto& digit : digits) {
      carry += std::uint64_t{digit} << 8;
      digit = static_cast<std::uint32_t>(carry % 1'000'000'000);
      carry /= 1'000'000'000;
    }
    if (carry > 0) digits.push_back(static_cast<std::uint32_t>(carry));
  }
  if (digits.empty()) return "0";
  std::string text = std::to_string(digits.back());
  for (std::size_t i = digits.size() - 1; i-- > 0;) {
    const std::string part = std::to_string(digits[i]);
    text += std::string(9 - part.size(), '0') + part;
  }
  return text;
}

std::string hexadecimal_digits(const std::string& magnitude) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(magnitude.size() * 2);
  for (std::size_t i = magnitude.size(); i-- > 0;) {
    const auto byte = static_cast<unsigned char>(magnitude[i]);
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 0xF]);
  }
  text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
  return text;
}

}  // namespace

std::string BigInt::text() const {
  std::string magnitude = twos_complement;
  const std::string sign = make_positive(magnitude) ? "-" : "";
  if (magnitude.size() <= kMaxDecimalBytes) {
    std::string digits = decimal_digits(magnitude);
    if (digits.size() <= kMaxDigits) return sign + digits;
  }
  return sign + "0x" + hexadecimal_digits(magnitude);
}

}  // namespace cairn
