// A tar with one file in it.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/bytes.h"

namespace cairn::tar {

// Not thread-safe.
class Writer final : public ByteSink {
 public:
  // Writes the header: the size has to be known before the content. `name`: at most 100 bytes.
  Writer(ByteSink& out, const std::string& name, std::uint64_t size);

  void write(ByteView bytes) override;
  // Once, when exactly `size` bytes were written.
  void finish();

 private:
  ByteSink& out_;
  std::uint64_t left_;
  std::uint64_t padding_;
};

}  // namespace cairn::tar
