#include "core/crc32.h"

#include <libdeflate.h>

namespace cairn {

std::uint32_t crc32(ByteView bytes, std::uint32_t before) {
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

}  // namespace cairn
