#include "cli/console.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

namespace cairn::cli {
namespace {

std::string painted(bool color, const char* code, const std::string& text) {
  return color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

}  // namespace

std::string Console::red(const std::string& text) const { return painted(color, "31", text); }
std::string Console::green(const std::string& text) const { return painted(color, "32", text); }
std::string Console::dim(const std::string& text) const { return painted(color, "2", text); }

std::string Console::bytes(std::uint64_t count) const {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (exact_bytes) return std::to_string(count);
  auto scaled = static_cast<double>(count);
  std::size_t unit = 0;
  while (scaled >= 1023.5 && unit + 1 < kUnits.size()) {
    scaled /= 1024;
    ++unit;
  }
  return unit == 0 || scaled >= 99.95 ? fmt::format("{:.0f} {}", scaled, kUnits[unit])
                                      : fmt::format("{:.1f} {}", scaled, kUnits[unit]);
}

}  // namespace cairn::cli
