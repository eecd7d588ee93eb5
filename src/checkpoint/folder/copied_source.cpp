#include "checkpoint/folder/copied_source.h"

#include <algorithm>
#include <vector>

#include "io/bytes/source_part.h"

namespace cairn {

void CopiedSource::finish() const {
  const std::uint64_t begin = written();
  if (begin == size()) return;
  read_in_blocks(*part_of(under_, begin, size() - begin, name()),
                 [&](ByteView block) { pass(written(), block); });
}

// Also reads small gaps between the parts, so that no byte before the next part is missing in the
// copy.
void CopiedSource::read_each(std::span<const Part> parts, const Look& look) const {
  if (!shows_in_order()) return under_->read_each(parts, look);
  constexpr std::uint64_t kMaxGapBytes = std::uint64_t{1} << 20;
  constexpr std::size_t kBetween = ~std::size_t{0};
  std::vector<Part> all;
  std::vector<std::size_t> numbers;  // their indices in `parts`
  std::uint64_t end = written();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    check_range(parts[i].offset, parts[i].size);
    if (parts[i].offset > end && parts[i].offset - end <= kMaxGapBytes) {
      all.push_back({.offset = end, .size = parts[i].offset - end});
      numbers.push_back(kBetween);
      end = parts[i].offset;
    }
    all.push_back(parts[i]);
    numbers.push_back(i);
    if (parts[i].offset <= end) end = std::max(end, parts[i].offset + parts[i].size);
  }
  under_->read_each(all, [&](std::size_t i, std::uint64_t begin, ByteView bytes) {
    pass(all[i].offset + begin, bytes);
    if (numbers[i] != kBetween) look(numbers[i], begin, bytes);
  });
}

std::uint64_t CopiedSource::written() const {
  const std::scoped_lock lock(mutex_);
  return written_;
}

void CopiedSource::pass(std::uint64_t offset, ByteView bytes) const {
  const std::scoped_lock lock(mutex_);
  if (offset > written_ || offset + bytes.size() <= written_) return;
  out_.write(bytes.subspan(written_ - offset));
  written_ = offset + bytes.size();
}

}  // namespace cairn
