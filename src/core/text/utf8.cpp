#include "core/text/utf8.h"

#include <optional>

namespace cairn {
namespace {

// Returns nullopt if the text does not start with valid UTF-8.
std::optional<CodePoint> decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return CodePoint{first, 1};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return std::nullopt;
  char32_t point = first & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return std::nullopt;
    point = (point << 6) | (byte(i) & 0x3FU);
  }
  const bool overlong = point < (size == 4 ? 0x10000U : size == 3 ? 0x800U : 0x80U);
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  if (overlong || surrogate || point > 0x10FFFF) return std::nullopt;
  return CodePoint{point, size};
}

}  // namespace

CodePoint first_code_point(std::string_view utf8) {
  const auto valid = decode(utf8);
  return valid ? *valid : CodePoint{0xDC00U + static_cast<unsigned char>(utf8[0]), 1};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto valid = decode(text);
    if (!valid) return false;
    text.remove_prefix(valid->size);
  }
  return true;
}

std::u32string code_points(std::string_view utf8) {
  std::u32string points;
  points.reserve(utf8.size());
  while (!utf8.empty()) {
    const CodePoint point = first_code_point(utf8);
    points.push_back(point.value);
    utf8.remove_prefix(point.size);
  }
  return points;
}

}  // namespace cairn
