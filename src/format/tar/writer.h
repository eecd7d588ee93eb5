// Writes a tar with one or several files.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/bytes.h"

namespace cairn::tar {

// Not thread-safe.
class Writer final : public ByteSink {
 public:
  // Writes the header, so the size must be known before the content. `name` has at most 100 bytes.
  Writer(ByteSink& out, const std::string& name, std::uint64_t size);

  void write(ByteView bytes) override;
  // Begins another file, after exactly `size` bytes of the previous file were written.
  void next(const std::string& name, std::uint64_t size);
  // Ends the tar, after exactly `size` bytes were written. Call it once.
  void finish();

 private:
  void begin(const std::string& name, std::uint64_t size);
  void end(std::uint64_t zeros_behind);

  ByteSink& out_;
  std::uint64_t left_ = 0;
  std::uint64_t padding_ = 0;
};

}  // namespace cairn::tar
