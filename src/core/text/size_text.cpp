#include "core/text/size_text.h"

#include <fmt/format.h>

#include <array>

namespace cairn {

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto scaled = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (scaled >= 1023.5 && unit + 1 < kUnits.size()) {
    scaled /= 1024;
    ++unit;
  }
  return unit == 0 || scaled >= 99.95 ? fmt::format("{:.0f} {}", scaled, kUnits[unit])
                                      : fmt::format("{:.1f} {}", scaled, kUnits[unit]);
}

}  // namespace cairn
