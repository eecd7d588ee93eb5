// Limits the memory for reading a file by the number of bytes in the file.
#pragma once

#include <cstdint>

namespace cairn {

// A reader takes from its budget before it allocates, and gives back what it frees. So the reader
// holds at most kFreeBytes + kBytesPerByte for each byte of the file. SECURITY.md promises more (64
// MiB and 16). The difference is room for the pickle as it stands in the file, and for uncounted
// memory.
class MemoryBudget {
 public:
  static constexpr std::uint64_t kFreeBytes = std::uint64_t{48} << 20;
  static constexpr std::uint64_t kBytesPerByte = 14;

  explicit MemoryBudget(std::uint64_t file_bytes)
      : file_bytes_(file_bytes), left_(kFreeBytes + kBytesPerByte * file_bytes) {}

  // Throws UnsupportedError if `bytes` is more than is left.
  void take(std::uint64_t bytes) {
    if (bytes > left_) refuse(bytes);
    left_ -= bytes;
  }
  // Whether take() has ever thrown. If so, an object is missing, and reading in another way does
  // not help.
  bool has_refused() const { return has_refused_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  void give_back(std::uint64_t bytes) { left_ += bytes; }

  // The bytes that the allocator takes for an object of that size.
  static constexpr std::uint64_t allocation(std::uint64_t bytes) {
    return bytes == 0 ? 0 : bytes <= 24 ? 32 : (bytes + 8 + 15) / 16 * 16;
  }

 private:
  [[noreturn]] void refuse(std::uint64_t bytes);

  std::uint64_t file_bytes_;
  std::uint64_t left_;
  bool has_refused_ = false;
};

}  // namespace cairn
