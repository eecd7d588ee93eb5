// Bytes that are made when they are asked for, and may be more than memory holds.
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

// What is as large as this, or smaller, is made in memory.
inline constexpr std::uint64_t kMostBytesInMemory = std::uint64_t{32} << 20;

// Keeps what is written: in memory while that is no more than `most_in_memory`, otherwise in a
// ScratchFile.
class SpillSink final : public ByteSink {
 public:
  struct Options {
    std::uint64_t most_in_memory = kMostBytesInMemory;
    std::uint64_t expected_bytes = 0;  // 0: nobody knows
    std::string scratch_folder = {};   // as ScratchFile's
  };
  explicit SpillSink(Options options);
  void write(ByteView bytes) override;
  // All that was written, mapped where it is in a file. Call once, last.
  SharedBytes take();

 private:
  Options options_;
  std::shared_ptr<std::vector<std::byte>> small_ = std::make_shared<std::vector<std::byte>>();
  std::optional<ScratchFile> file_;
};

// The `size` bytes that `write` writes, by a SpillSink. Throws what `write` throws, and
// StorageError.
SharedBytes spill(std::uint64_t size, const std::string& scratch_folder,
                  const std::function<void(ByteSink& sink)>& write);

}  // namespace cairn
