#include "core/hash/crc32.h"

#include <libdeflate.h>

#include <algorithm>

#include "core/hash/crc_folding.h"
#include "core/hash/sliced_crc.h"

namespace cairn {
namespace {

using Zip = SlicedCrc<std::uint32_t, 0xEDB88320>;

}  // namespace

std::uint32_t crc32(ByteView bytes, std::uint32_t before) {
  constexpr std::size_t kWorthFolding = 512;  // finishing costs as much as 200 bytes
  if (bytes.size() >= kWorthFolding && best_crc_fold() == CrcFold::k256) {
    return Zip::of(bytes, before);
  }
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t size) {
  return Zip::joined(first, second, size);
}

std::uint32_t crc32_and_copy(std::byte* to, ByteView bytes, std::uint32_t before) {
  constexpr std::size_t kCachedBytes = std::size_t{16} << 10;
  std::uint32_t crc = before;
  while (!bytes.empty()) {
    const ByteView piece = bytes.first(std::min(bytes.size(), kCachedBytes));
    std::copy(piece.begin(), piece.end(), to);
    crc = crc32({to, piece.size()}, crc);
    to += piece.size();
    bytes = bytes.subspan(piece.size());
  }
  return crc;
}

std::uint32_t crc32_and_copy_lines(std::byte* to, ByteView bytes, std::uint32_t before) {
  return best_crc_fold() == CrcFold::kNone ? crc32_and_copy(to, bytes, before)
                                           : Zip::of_and_copy(bytes, before, to);
}

}  // namespace cairn
