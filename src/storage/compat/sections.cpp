#include "storage/compat/sections.h"

#include <algorithm>

#include "cairn/error.h"

#include "io/bytes/source_part.h"
#include "io/file.h"

namespace cairn {
namespace {

constexpr std::uint64_t kLongestSections = 1 << 20;

std::string_view stripped(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

}  // namespace

Sections parse_sections(const std::string& text) {
  Sections sections;
  Section* section = nullptr;
  std::string outer;  // the setting whose nested settings are indented: "s3 ="
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view whole(text.data() + begin, end - begin);
    begin = end + 1;
    const bool is_indented = whole.starts_with(' ') || whole.starts_with('\t');
    std::string_view line = stripped(whole);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const std::size_t close = std::min(line.find(']'), line.size());
      section = &sections[std::string(stripped(line.substr(1, close - 1)))];
      outer.clear();
      continue;
    }
    const std::size_t equals = line.find('=');
    if (section == nullptr || equals == std::string_view::npos) continue;
    const std::string name(stripped(line.substr(0, equals)));
    std::string_view value = line.substr(equals + 1);
    value = stripped(value.substr(0, std::min(value.find(" #"), value.find(" ;"))));
    if (is_indented && !outer.empty()) {
      section->emplace(outer + "." + name, value);
    } else {
      outer = value.empty() ? name : "";
      section->emplace(name, value);
    }
  }
  return sections;
}

Sections read_sections(const std::string& path) {
  const SharedBytes bytes = read_start(*posix_file_system().open(path), kLongestSections);
  return parse_sections(std::string(as_text(bytes.view)));
}

}  // namespace cairn
