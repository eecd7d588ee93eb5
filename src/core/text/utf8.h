// UTF-8 as Python's str sees it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

struct CodePoint {
  char32_t value = 0;
  std::size_t size = 0;  // bytes
};

// The first code point of a text that is not empty. A byte that is not valid UTF-8 becomes the lone
// surrogate 0xDC00 + byte, as in Python's "surrogateescape". So every text has code points, and
// different texts have different ones.
CodePoint first_code_point(std::string_view utf8);
std::u32string code_points(std::string_view utf8);
// Whether all of a text is valid UTF-8.
bool is_utf8(std::string_view text);

}  // namespace cairn
