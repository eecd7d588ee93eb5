#include "cli/runs/event_records.h"

#include <algorithm>

#include "core/hash/masked_crc32c.h"
#include "core/little_endian.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kHead = 12;     // the length and its checksum
constexpr std::uint64_t kChecksum = 4;  // after the data
constexpr std::uint64_t kWindow = std::uint64_t{4} << 20;
constexpr std::uint64_t kMostRead = std::uint64_t{64} << 20;

// `text` begins with bytes of which the checksum follows after `size`.
bool has_checksum(std::string_view text, std::size_t size) {
  const std::uint32_t written = load_little_endian<std::uint32_t>(as_bytes(text).data() + size);
  return masked_crc32c(as_bytes(text.substr(0, size))) == written;
}

}  // namespace

EventRecords::EventRecords(const ByteSource& source, std::uint64_t offset)
    : source_(source), offset_(offset) {}

// The length is trusted only after its checksum was compared, and if the file has that many bytes.
EventRecords::Found EventRecords::next() {
  data_ = {};
  const std::uint64_t left = source_.size() - std::min(source_.size(), offset_);
  if (left < kHead) return Found::kEnd;
  const std::string_view head = bytes(offset_, kHead);
  if (!has_checksum(head, sizeof(std::uint64_t))) return Found::kDamaged;
  const auto size = load_little_endian<std::uint64_t>(as_bytes(head).data());
  if (left < kHead + kChecksum || size > left - kHead - kChecksum) return Found::kEnd;
  if (size <= kMostRead) {
    const std::string_view body = bytes(offset_ + kHead, size + kChecksum);
    if (!has_checksum(body, static_cast<std::size_t>(size))) return Found::kDamaged;
    data_ = body.substr(0, static_cast<std::size_t>(size));
  }
  offset_ += kHead + size + kChecksum;
  return Found::kRecord;
}

std::string_view EventRecords::bytes(std::uint64_t offset, std::uint64_t size) {
  const bool is_there =
      offset >= window_begin_ && offset + size <= window_begin_ + std::uint64_t{window_.size()};
  if (!is_there) {
    const std::uint64_t wanted = std::min(std::max(size, kWindow), source_.size() - offset);
    window_.resize(static_cast<std::size_t>(wanted));
    window_begin_ = offset;
    const ByteSource::Range range{offset, std::as_writable_bytes(std::span(window_))};
    source_.read(std::span(&range, 1));
  }
  return std::string_view(window_).substr(static_cast<std::size_t>(offset - window_begin_),
                                          static_cast<std::size_t>(size));
}

}  // namespace cairn::cli
