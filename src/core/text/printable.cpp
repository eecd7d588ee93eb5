#include "core/text/printable.h"

#include <fmt/format.h>

#include "core/text/utf8.h"

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

std::string printable_json(std::string json) {
  // In UTF-8 a C1 character is C2 and a byte from 80 to 9F, which no other sequence contains.
  const auto is_c1_at = [&json](std::size_t i) {
    const auto next = static_cast<unsigned char>(i + 1 < json.size() ? json[i + 1] : '\0');
    return json[i] == '\xc2' && next >= 0x80 && next < 0xA0;
  };
  std::string out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const bool is_c1 = is_c1_at(i);
    if (json[i] != '\x7f' && !is_c1) continue;
    out.append(json, begin, i - begin);
    if (is_c1) ++i;
    out += fmt::format("\\u{:04x}", static_cast<unsigned char>(json[i]));
    begin = i + 1;
  }
  if (begin == 0) return json;
  return out.append(json, begin);
}

}  // namespace cairn
