// Tars written by hand, with contents that no program would write.
#pragma once

#include <string>

#include "format/tar/header.h"

namespace cairn::testing {

inline const std::string kTarEnd(2 * tar::kBlockBytes, '\0');

inline std::string octal(std::uint64_t value, std::size_t width) {
  std::string digits(width, '0');
  for (std::size_t i = width; i > 0; --i, value >>= 3) {
    digits[i - 1] = static_cast<char>('0' + (value & 7));
  }
  return digits;
}

struct TarMember {
  std::string name = "a.pt";
  char type = '0';
  std::string content = "content";
  std::string size_field = {};  // replaces the content's size
  std::string prefix = {};
  bool is_gnu = false;
};

inline std::string tar_member(const TarMember& m) {
  std::string block(tar::kBlockBytes, '\0');
  m.name.copy(block.data(), tar::kName.size);
  const std::string size = m.size_field.empty() ? octal(m.content.size(), 11) : m.size_field;
  size.copy(block.data() + tar::kSize.offset, tar::kSize.size);
  block[tar::kType.offset] = m.type;
  const std::string_view magic = m.is_gnu ? tar::kGnu : tar::kUstar;
  magic.copy(block.data() + tar::kMagic.offset, tar::kMagic.size);
  m.prefix.copy(block.data() + tar::kPrefix.offset, tar::kPrefix.size);
  const std::string sum = octal(tar::checksum(as_bytes(block)), 6);
  sum.copy(block.data() + tar::kChecksum.offset, sum.size());
  block[tar::kChecksum.offset + 7] = ' ';
  std::string text = block + m.content;
  text.resize((text.size() + tar::kBlockBytes - 1) / tar::kBlockBytes * tar::kBlockBytes);
  return text;
}

// A pax header with one record, for the next member.
inline std::string pax(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) {
    ++length;
  }
  return tar_member({.name = "x", .type = 'x', .content = std::to_string(length) + rest});
}

}  // namespace cairn::testing
