// Names that no other process draws.
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace cairn {

// `length` lower-case letters and digits, of the system's randomness.
inline std::string random_name(std::size_t length) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::string name(length, ' ');
  for (char& c : name)
    c = kDigits[random() % kDigits.size()];
  return name;
}

}  // namespace cairn
