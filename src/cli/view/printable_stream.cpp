#include "cli/view/printable_stream.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/text/printable.h"

namespace cairn::cli {
namespace {

// The colours that painted() of console.cpp writes.
constexpr std::array<std::string_view, 4> kColors = {"\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[0m"};

bool is_plain(char c) { return (c >= ' ' && c < '\x7f') || c == '\n' || c == '\t'; }

// The number of bytes at the end of `text` that begin a character without completing it.
std::size_t unfinished(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    const std::size_t size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return size > back ? back : 0;
  }
  return 0;
}

}  // namespace

bool PrintableBuffer::write(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const auto special = std::find_if_not(text.begin(), text.end(), is_plain);
    safe.append(text.begin(), special);
    text.remove_prefix(static_cast<std::size_t>(special - text.begin()));
    if (text.empty()) break;
    const auto color = std::find_if(kColors.begin(), kColors.end(),
                                    [&](std::string_view c) { return text.starts_with(c); });
    if (color_ && color != kColors.end()) {
      safe += *color;
      text.remove_prefix(color->size());
      continue;
    }
    // Bytes from 0x80 on are written together. Control characters are written one by one, so that a
    // colour after a control character is recognised.
    const auto is_other = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
    const auto end = std::find_if_not(text.begin(), text.end(), is_other);
    const auto size = std::max<std::size_t>(1, static_cast<std::size_t>(end - text.begin()));
    safe += printable(text.substr(0, size));
    text.remove_prefix(size);
  }
  out_.write(safe.data(), static_cast<std::streamsize>(safe.size()));
  return out_.good();
}

std::streamsize PrintableBuffer::xsputn(const char* text, std::streamsize size) {
  std::string all = begun_ + std::string(text, static_cast<std::size_t>(size));
  begun_ = all.substr(all.size() - unfinished(all));
  all.resize(all.size() - begun_.size());
  return write(all) ? size : 0;
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type c) {
  if (c == traits_type::eof()) return sync() == 0 ? 0 : c;
  const char character = traits_type::to_char_type(c);
  return xsputn(&character, 1) == 1 ? c : traits_type::eof();
}

int PrintableBuffer::sync() {
  const std::string rest = std::exchange(begun_, {});
  return write(rest) && out_.flush().good() ? 0 : -1;
}

}  // namespace cairn::cli
