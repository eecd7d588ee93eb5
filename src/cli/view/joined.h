// Joins words with a separator.
#pragma once

#include <fmt/ranges.h>

#include <string>
#include <string_view>

namespace cairn::cli {

std::string joined(const auto& words, std::string_view separator = ", ") {
  return fmt::to_string(fmt::join(words, separator));
}

}  // namespace cairn::cli
