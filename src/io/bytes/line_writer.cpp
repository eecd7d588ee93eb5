#include "io/bytes/line_writer.h"

#include <algorithm>
#include <cstring>

#include "core/hash/crc32.h"

namespace cairn {
namespace {

// Pieces of at least this size go straight to their place. crc32() folds from the same size on.
constexpr std::size_t kLarge = 512;

}  // namespace

template <class Check>
void LineWriter::gather(ByteView bytes, const Check& check) {
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), gathered_.size() - used_);
    std::byte* const copy = gathered_.data() + used_;
    std::memcpy(copy, bytes.data(), n);
    check(ByteView(copy, n));
    used_ += n;
    bytes = bytes.subspan(n);
    if (used_ == gathered_.size()) flush_lines();
  }
}

void LineWriter::flush_lines() {
  const std::size_t lines = used_ / kCacheLine * kCacheLine;
  if (lines == 0) return;
  stream_lines(to_, gathered_.data(), lines);
  to_ += lines;
  used_ -= lines;
  std::memcpy(gathered_.data(), gathered_.data() + lines, used_);
}

template <class CopyLines, class Check>
void LineWriter::write_by(ByteView bytes, const CopyLines& copy_lines, const Check& check) {
  if (bytes.size() >= kLarge) {
    const std::size_t head = (kCacheLine - used_ % kCacheLine) % kCacheLine;
    gather(bytes.first(head), check);
    flush_lines();
    const std::size_t lines = (bytes.size() - head) / kCacheLine * kCacheLine;
    copy_lines(bytes.subspan(head, lines));
    to_ += lines;
    bytes = bytes.subspan(head + lines);
  }
  gather(bytes, check);
}

void LineWriter::write(ByteView bytes) {
  write_by(
      bytes, [this](ByteView lines) { stream_lines(to_, lines.data(), lines.size()); },
      [](ByteView) {});
}

std::uint32_t LineWriter::write_with_crc32(ByteView bytes, std::uint32_t before) {
  std::uint32_t crc = before;
  write_by(
      bytes, [&](ByteView lines) { crc = crc32_and_copy_lines(to_, lines, crc); },
      [&](ByteView copy) { crc = crc32(copy, crc); });
  return crc;
}

void LineWriter::finish() {
  flush_lines();
  std::memcpy(to_, gathered_.data(), used_);
  used_ = 0;
  stream_fence();
}

}  // namespace cairn
