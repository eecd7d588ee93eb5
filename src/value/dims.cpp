#include "cairn/dims.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace cairn {
namespace {

std::int64_t* room_for(std::size_t count) {
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    throw std::length_error("a tensor of more than 2^32 - 1 dimensions");
  }
  return new std::int64_t[count];
}

}  // namespace

std::strong_ordering operator<=>(const Dims& a, const Dims& b) noexcept {
  return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
}

std::size_t Dims::checked(std::size_t i) const {
  if (i < size_) return i;
  throw std::out_of_range("dimension " + std::to_string(i) + " of " + std::to_string(size_));
}

void Dims::grow(std::size_t count) {
  std::int64_t* const far = room_for(count);
  std::copy(begin(), end(), far);
  let_go();
  far_ = far;
  room_ = static_cast<std::uint32_t>(count);
}

void Dims::copy_far(const std::int64_t* numbers, std::size_t count) {
  std::int64_t* const far = room_for(count);
  std::copy_n(numbers, count, far);
  let_go();
  far_ = far;
  room_ = size_ = static_cast<std::uint32_t>(count);
}

}  // namespace cairn
