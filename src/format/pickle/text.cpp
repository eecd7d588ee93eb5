#include "format/pickle/text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace cairn::pickle {
namespace {

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x80; });
}

// Returns the length of the sequence that starts with `lead`; 0 if no sequence starts with it. Sets
// `min` to the smallest character that needs so many bytes.
std::size_t sequence_length(unsigned char lead, std::uint32_t& min) {
  if (lead >= 0xC2 && lead <= 0xDF) return min = 0x80, 2;
  if (lead >= 0xE0 && lead <= 0xEF) return min = 0x800, 3;
  if (lead >= 0xF0 && lead <= 0xF4) return min = 0x10000, 4;
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    std::uint32_t min = 0;
    const std::size_t length = sequence_length(lead, min);
    if (length == 0 || length > text.size() - i) return false;
    std::uint32_t character = lead & (0x7FU >> length);
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xC0U) != 0x80) return false;
      character = character << 6 | (next & 0x3FU);
    }
    if (character < min || character > 0x10FFFF) return false;
    i += length;
  }
  return true;
}

std::string latin1_to_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out.push_back(c);
    } else {
      out.push_back(static_cast<char>(0xC0U | byte >> 6));
      out.push_back(static_cast<char>(0x80U | (byte & 0x3FU)));
    }
  }
  return out;
}

std::optional<std::string> utf8_to_latin1(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      out.push_back(text[i]);
    } else if (byte <= 0xC3 && i + 1 < text.size()) {
      ++i;
      out.push_back(
          static_cast<char>((byte & 0x03U) << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU)));
    } else {
      return std::nullopt;
    }
  }
  return out;
}

namespace {

void append_utf8(std::string& out, std::uint32_t character) {
  if (character < 0x80) {
    out.push_back(static_cast<char>(character));
    return;
  }
  const int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;  // bytes after the first
  constexpr unsigned kLead[] = {0, 0xC0, 0xE0, 0xF0};
  out.push_back(static_cast<char>(kLead[more] | character >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) {
    out.push_back(static_cast<char>(0x80U | (character >> (6 * i) & 0x3FU)));
  }
}

}  // namespace

std::optional<std::string> raw_unicode_escape_to_utf8(std::string_view bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size();) {
    const char kind = i + 1 < bytes.size() ? bytes[i + 1] : '\0';
    if (bytes[i] != '\\' || (kind != 'u' && kind != 'U')) {
      append_utf8(out, static_cast<unsigned char>(bytes[i]));
      ++i;
      continue;
    }
    const std::string_view digits = bytes.substr(i + 2, kind == 'u' ? 4 : 8);
    std::uint32_t character = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, character, 16);
    const bool is_whole = digits.size() == (kind == 'u' ? 4U : 8U);
    if (!is_whole || error != std::errc() || stop != end || character > 0x10FFFF) {
      return std::nullopt;
    }
    append_utf8(out, character);
    i += 2 + digits.size();
  }
  return out;
}

}  // namespace cairn::pickle
