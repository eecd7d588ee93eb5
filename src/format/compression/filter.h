// A sink that changes what passes through it: compresses it, or takes the compression off.
#pragma once

#include "cairn/bytes.h"

namespace cairn {

// Not thread-safe. What was written and not finished is incomplete: the destructor only lets go.
// After an exception the filter may only be destroyed.
class Filter : public ByteSink {
 public:
  // No more comes: passes the rest on. Once, last. One that decompresses throws CorruptError when
  // the compressed data was cut off.
  virtual void finish() = 0;
};

}  // namespace cairn
