// Finds parts of a text that a test looks at.
#pragma once

#include <cstddef>
#include <string>

namespace cairn::cli {

// The text between the first `begin` and the next `end` after it.
inline std::string between(const std::string& text, const std::string& begin,
                           const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return "no " + begin;
  const std::size_t at = from + begin.size();
  return text.substr(at, text.find(end, at) - at);
}

inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

}  // namespace cairn::cli
