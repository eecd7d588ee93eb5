// A sink that compresses or decompresses the bytes that pass through it.
#pragma once

#include "cairn/bytes.h"

namespace cairn {

// Not thread-safe. Output without a finish() is incomplete: the destructor only frees resources.
// After an exception the filter may only be destroyed.
class Filter : public ByteSink {
 public:
  // Ends the input and writes the remaining output. Called once, as the last call. A decompressing
  // filter throws CorruptError if the compressed data was cut off.
  virtual void finish() = 0;
};

}  // namespace cairn
