// What a file may cost to read: memory is paid for by the bytes of the file.
#pragma once

#include <cstdint>

namespace cairn {

// A reader takes from its budget before it allocates and gives back what it frees, so that what it
// holds stays below kFreeBytes + kBytesPerByte for each byte of the file. Both leave room below the
// promise in SECURITY.md (64 MiB and 16) for the pickle as it stands in the file, and for what is
// counted nowhere.
class MemoryBudget {
 public:
  static constexpr std::uint64_t kFreeBytes = std::uint64_t{48} << 20;
  static constexpr std::uint64_t kBytesPerByte = 14;

  explicit MemoryBudget(std::uint64_t file_bytes)
      : file_bytes_(file_bytes), left_(kFreeBytes + kBytesPerByte * file_bytes) {}

  // UnsupportedError when that is more than is left.
  void take(std::uint64_t bytes) {
    if (bytes > left_) refuse(bytes);
    left_ -= bytes;
  }
  // Whether it has ever said no: what was to be made is missing, and no other reading makes up for
  // it.
  bool has_refused() const { return has_refused_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  void give_back(std::uint64_t bytes) { left_ += bytes; }

  // What the allocator takes for an object of that size.
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
