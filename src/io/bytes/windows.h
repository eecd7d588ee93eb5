// Parts of a source that were read ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/byte_source.h"

namespace cairn {

// A source with some parts in memory: the ends of a file, read generously with one call, and the
// bytes that these ends show to be needed next. Reading inside such a part costs no read. Not
// thread-safe while fetch(), add() or forget() run; otherwise as safe as `under`.
class Windows final : public ByteSource {
 public:
  struct Extent {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;  // an extent past the end is cut there
  };

  // If `under` is a Windows itself, this source begins with the windows of `under`.
  explicit Windows(std::shared_ptr<const ByteSource> under);

  // Reads with one call those of `extents` that are not in memory yet.
  void fetch(std::vector<Extent> extents);
  // Adds bytes that were read already, of the range that begins at `offset`. Many calls are cheap
  // if their offsets ascend.
  void add(std::uint64_t offset, SharedBytes bytes);
  // Whether the range is in memory, so that reading it costs nothing.
  bool has(std::uint64_t offset, std::uint64_t bytes) const;
  // Releases all bytes that were read ahead.
  void forget() { windows_.clear(); }

  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  bool in_memory() const override { return under_->in_memory(); }
  void read(std::span<const Range> ranges) const override;
  void read_each(std::span<const Part> parts, const Look& look) const override;
  bool shows_in_order() const override { return under_->shows_in_order(); }
  SharedBytes view(std::uint64_t offset, std::uint64_t bytes) const override;
  const LocalFile* local_file() const override { return under_->local_file(); }

 private:
  struct Window {
    std::uint64_t offset = 0;
    SharedBytes bytes = {};
    std::uint64_t end() const { return offset + bytes.view.size(); }
  };
  const Window* find(std::uint64_t offset, std::uint64_t bytes) const;
  // Calls known(begin, bytes) for each part of the range that is in a window, and other(begin,
  // size) for the rest. `begin` counts from `offset`.
  void split(std::uint64_t offset, std::uint64_t size, auto&& known, auto&& other) const;

  std::shared_ptr<const ByteSource> under_;
  // Sorted by offset. No window lies within another, so they are sorted by end, too.
  std::vector<Window> windows_;
};

}  // namespace cairn
