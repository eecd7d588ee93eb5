// Bytes that are produced on request, and may be more than memory holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/bytes.h"

#include "io/memory/scratch_file.h"

namespace cairn {

// This many bytes, or fewer, are kept in memory.
inline constexpr std::uint64_t kMaxBytesInMemory = std::uint64_t{32} << 20;

// Collects the bytes that are written: in memory up to `most_in_memory` bytes, beyond that in a
// ScratchFile.
class SpillSink final : public ByteSink {
 public:
  struct Options {
    std::uint64_t most_in_memory = kMaxBytesInMemory;
    std::uint64_t expected_bytes = 0;  // 0: unknown
    std::string scratch_folder = {};   // as for ScratchFile
  };
  explicit SpillSink(Options options);
  void write(ByteView bytes) override;
  // Returns all that was written, mapped if it is in a file. Call once, last.
  SharedBytes take();

 private:
  Options options_;
  std::shared_ptr<std::vector<std::byte>> small_ = std::make_shared<std::vector<std::byte>>();
  std::optional<ScratchFile> file_;
};

// Returns the `size` bytes that `write` writes, collected by a SpillSink. Throws what `write`
// throws, and StorageError.
SharedBytes spill(std::uint64_t size, const std::string& scratch_folder,
                  const std::function<void(ByteSink& sink)>& write);

}  // namespace cairn
