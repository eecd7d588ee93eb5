// Ranges of bytes, and ByteSink, through which formats write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// Bytes that are owned elsewhere.
using ByteView = std::span<const std::byte>;

// Views, not copies: valid as long as the argument is.
inline ByteView as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Bytes and their owner: a mapped file or a buffer. Copies share the bytes. Immutable, so safe to
// read from several threads.
struct SharedBytes {
  ByteView view;
  std::shared_ptr<const void> owner;
  // For a mapped file: implements release(). nullptr if the bytes are in memory only.
  void (*release_pages)(ByteView part, const void* owner) = nullptr;

  // For a mapped file: gives the memory of a part of `view`, and of the bytes shortly before it,
  // back to the kernel. The kernel reads these bytes again when they are needed. If the bytes are
  // in memory only, does nothing. Code that streams through more bytes than memory holds calls
  // release() for finished parts.
  void release(ByteView part) const {
    if (release_pages != nullptr) release_pages(part, owner.get());
  }

  // Returns a part of the bytes, which keeps all of them alive. The part must lie inside of `view`.
  SharedBytes part(std::size_t offset, std::size_t size) const {
    return {view.subspan(offset, size), owner, release_pages};
  }
};

// The destination of an encoder, which writes bytes in order. Not thread-safe.
class ByteSink {
 public:
  virtual ~ByteSink() = default;

  // Appends `bytes`, which the caller may free when write() returns. Throws StorageError.
  virtual void write(ByteView bytes) = 0;
};

}  // namespace cairn
