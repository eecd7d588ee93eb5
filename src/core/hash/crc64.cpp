#include "core/hash/crc64.h"

#include "core/hash/sliced_crc.h"

namespace cairn {
namespace {

using Nvme = SlicedCrc<std::uint64_t, 0x9A6C9329AC4BC9B5>;

}  // namespace

std::uint64_t crc64_nvme(ByteView bytes, std::uint64_t before) { return Nvme::of(bytes, before); }

std::uint64_t crc64_nvme_joined(std::uint64_t first, std::uint64_t second, std::uint64_t size) {
  return Nvme::joined(first, second, size);
}

}  // namespace cairn
