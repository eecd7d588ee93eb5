// The width of text in a terminal, if every character is one column wide.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

// Bytes that continue a UTF-8 sequence begin no column.
inline bool begins_column(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

inline std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (const char byte : text)
    columns += begins_column(byte) ? 1 : 0;
  return columns;
}

// The beginning of the text, at most `width` columns.
inline std::string cut_to_columns(std::string text, std::size_t width) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_column(text[i]) && ++columns > width) return text.substr(0, i);
  }
  return text;
}

// The text in at most `width` columns. "…" stands for what has no room, so that a number without
// its end is not taken for another one.
inline std::string shortened(const std::string& text, std::size_t width) {
  if (columns_of(text) <= width) return text;
  return width == 0 ? "" : cut_to_columns(text, width - 1) + "…";
}

}  // namespace cairn
