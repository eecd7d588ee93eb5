// A source of bytes in memory that is not the host's.
#pragma once

#include "cairn/byte_source.h"

namespace cairn {

class DeviceSource : public ByteSource {
 public:
  bool is_cheap_in_pieces() const override { return true; }
};

}  // namespace cairn
