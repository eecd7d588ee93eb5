#include "core/hash/crc32c.h"

#include "core/hash/sliced_crc.h"

namespace cairn {
namespace {

using Castagnoli = SlicedCrc<std::uint32_t, 0x82F63B78>;

}  // namespace

std::uint32_t crc32c(ByteView bytes, std::uint32_t before) { return Castagnoli::of(bytes, before); }

std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t size) {
  return Castagnoli::joined(first, second, size);
}

}  // namespace cairn
