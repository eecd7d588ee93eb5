// Hashes for tables whose keys come from files: SipHash-1-3 under a key that is drawn once in each
// process, so that nobody can make keys that collide, and no table becomes a list.
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
