// The checksum in TensorBoard's event files, which are records of TFRecord.
#pragma once

#include <cstdint>

#include "core/hash/crc32c.h"

namespace cairn {

// The CRC-32C, rotated, plus a constant: the CRC of data that holds CRCs would otherwise be weak.
inline std::uint32_t masked_crc32c(ByteView bytes) {
  constexpr std::uint32_t kMask = 0xa282ead8;
  constexpr unsigned kRotation = 15;
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> kRotation | crc << (32 - kRotation)) + kMask;
}

}  // namespace cairn
