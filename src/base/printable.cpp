#include "base/printable.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace cairn {
namespace {

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }
bool is_line_end(char32_t c) { return c == U'\n' || c == U'\u2028' || c == U'\u2029'; }

std::string escaped(std::string_view text, bool keeps_lines) {
  std::string out;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const char32_t c = point.value;
    const bool is_raw_byte = c >= 0xDC80 && c <= 0xDCFF;
    if (keeps_lines ? is_control(c) && c != U'\n' : is_control(c) || is_line_end(c)) {
      out += c > 0xFF ? fmt::format("\\u{:04x}", static_cast<unsigned>(c))
                      : fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else if (is_raw_byte) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c) & 0xFFU);
    } else {
      out += text.substr(0, point.size);
    }
    text.remove_prefix(point.size);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, /*keeps_lines=*/true); }

std::string printable_line(std::string_view text) { return escaped(text, /*keeps_lines=*/false); }

}  // namespace cairn
