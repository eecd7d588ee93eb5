// Hashes for tables whose keys come from files: SipHash-1-3 with a key that is drawn once per
// process. So a file cannot choose keys that collide and make a table slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn {

std::uint64_t seeded_hash(std::string_view bytes);
std::uint64_t seeded_hash(std::uint64_t number);

// For the standard's tables: std::unordered_map<std::string, T, TextHash>.
struct TextHash {
  std::size_t operator()(std::string_view text) const { return seeded_hash(text); }
};

}  // namespace cairn
