#include "base/printable.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace cairn {

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const bool is_control =
        (point.value < 0x20 && point.value != '\n') || (point.value >= 0x7F && point.value < 0xA0);
    const bool is_raw_byte = point.value >= 0xDC80 && point.value <= 0xDCFF;
    if (is_control || is_raw_byte) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(point.value) & 0xFFU);
    } else {
      out += text.substr(0, point.size);
    }
    text.remove_prefix(point.size);
  }
  return out;
}

}  // namespace cairn
