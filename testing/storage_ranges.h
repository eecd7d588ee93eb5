// Reads parts of storages.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cairn/tensor.h"

namespace cairn::testing {

// Reads parts of a storage: every range from one byte to another, or some ranges if the storage is
// larger than 64 bytes. Returns "" if each range equals the same range of bytes(). Otherwise names
// a wrong range.
inline std::string wrong_range_of(const Storage& storage) {
  const SharedBytes all = storage.bytes();
  const std::size_t step = all.view.size() <= 64 ? 1 : all.view.size() / 13 + 1;
  for (std::size_t begin = 0; begin <= all.view.size(); begin += step) {
    for (std::size_t end = begin; end <= all.view.size(); end += step) {
      std::vector<std::byte> part(end - begin);
      storage.read_into(begin, part);
      if (!std::equal(part.begin(), part.end(),
                      all.view.begin() + static_cast<std::ptrdiff_t>(begin))) {
        return "bytes " + std::to_string(begin) + " to " + std::to_string(end);
      }
    }
  }
  return {};
}

}  // namespace cairn::testing
