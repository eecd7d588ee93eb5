#include "core/crc32.h"

#include <libdeflate.h>

#include <algorithm>

#include "core/crc_folding.h"
#include "core/sliced_crc.h"

namespace cairn {
namespace {

using Zip = SlicedCrc<std::uint32_t, 0xEDB88320>;

// A piece that the processor's first cache still has when it is read again.
constexpr std::size_t kCachedBytes = std::size_t{16} << 10;
// From here on it pays not to bring into the cache what is written.
constexpr std::size_t kWorthStreaming = std::size_t{32} << 10;

std::uint32_t copy_then_crc32(std::byte* to, ByteView bytes, std::uint32_t crc) {
  while (!bytes.empty()) {
    const ByteView piece = bytes.first(std::min(bytes.size(), kCachedBytes));
    std::copy(piece.begin(), piece.end(), to);
    crc = crc32({to, piece.size()}, crc);  // of what was written, whatever becomes of `bytes`
    to += piece.size();
    bytes = bytes.subspan(piece.size());
  }
  return crc;
}

}  // namespace

std::uint32_t crc32(ByteView bytes, std::uint32_t before) {
  constexpr std::size_t kWorthFolding = 512;  // what is left in the end costs as much as 200 bytes
  if (bytes.size() >= kWorthFolding && best_crc_fold() == CrcFold::k256) {
    return Zip::of(bytes, before);
  }
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t size) {
  return Zip::joined(first, second, size);
}

std::uint32_t crc32_and_copy(std::byte* to, ByteView bytes, std::uint32_t before) {
  constexpr std::size_t kLine = 64;
  if (bytes.size() < kWorthStreaming || best_crc_fold() == CrcFold::kNone) {
    return copy_then_crc32(to, bytes, before);
  }
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const std::uint32_t crc = copy_then_crc32(to, bytes.first(head), before);
  return Zip::of_and_copy(bytes.subspan(head), crc, to + head);
}

}  // namespace cairn
