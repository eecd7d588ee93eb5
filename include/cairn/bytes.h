// Byte ranges and the two interfaces through which formats meet storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace cairn {

// Bytes that somebody else keeps alive.
using ByteView = std::span<const std::byte>;

// Views, not copies: valid while what was given is.
inline ByteView as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Bytes together with whatever keeps them alive: a mapped file, a buffer. Copies share the bytes.
// Immutable, so safe to read from several threads.
struct SharedBytes {
  ByteView view;
  std::shared_ptr<const void> owner;
  // Of a mapped file, release(); nullptr when the bytes are in memory only.
  void (*release_pages)(ByteView part, const void* owner) = nullptr;

  // Of a mapped file: gives the memory of a part of `view`, and of what lies shortly before it,
  // back to the kernel, which reads it from the file again when it is needed. Whoever streams
  // through more than memory holds calls it for what is done. Otherwise does nothing.
  void release(ByteView part) const {
    if (release_pages != nullptr) release_pages(part, owner.get());
  }

  // A part that keeps the whole alive. Must lie inside.
  SharedBytes part(std::size_t offset, std::size_t size) const {
    return {view.subspan(offset, size), owner, release_pages};
  }
};

// Where an encoder puts its bytes, in order. Not thread-safe.
class ByteSink {
 public:
  virtual ~ByteSink() = default;

  // Appends `bytes`. When write() returns they need not be kept any longer. Throws StorageError.
  virtual void write(ByteView bytes) = 0;
};

}  // namespace cairn
