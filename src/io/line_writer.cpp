#include "io/line_writer.h"

#include <algorithm>
#include <cstring>

#include "core/crc32.h"
#include "io/stream_copy.h"

namespace cairn {
namespace {

// From here on a piece goes to its place without waiting; what folds CRCs wants that many, too.
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

LineWriter::Cut LineWriter::cut(ByteView bytes) const {
  const std::size_t head = (kCacheLine - used_ % kCacheLine) % kCacheLine;
  return {head, (bytes.size() - head) / kCacheLine * kCacheLine};
}

void LineWriter::write(ByteView bytes) {
  bridge_.before(bytes);
  const auto check = [](ByteView) {};
  if (bytes.size() >= kLarge) {
    const auto [head, lines] = cut(bytes);
    gather(bytes.first(head), check);
    flush_lines();
    stream_lines(to_, bytes.data() + head, lines);
    to_ += lines;
    bytes = bytes.subspan(head + lines);
  }
  gather(bytes, check);
}

std::uint32_t LineWriter::write_with_crc32(ByteView bytes, std::uint32_t before) {
  bridge_.before(bytes);
  std::uint32_t crc = before;
  const auto check = [&crc](ByteView copy) { crc = crc32(copy, crc); };
  if (bytes.size() >= kLarge) {
    const auto [head, lines] = cut(bytes);
    gather(bytes.first(head), check);
    flush_lines();
    crc = crc32_and_copy_lines(to_, bytes.subspan(head, lines), crc);
    to_ += lines;
    bytes = bytes.subspan(head + lines);
  }
  gather(bytes, check);
  return crc;
}

void LineWriter::finish() {
  flush_lines();
  std::memcpy(to_, gathered_.data(), used_);
  used_ = 0;
  stream_fence();
}

}  // namespace cairn
