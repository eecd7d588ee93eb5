#include "io/bytes/source_part.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cairn {
namespace {

class PartSource final : public ByteSource {
 public:
  PartSource(std::shared_ptr<const ByteSource> source, std::uint64_t offset, std::uint64_t size,
             std::string name)
      : source_(std::move(source)), offset_(offset), size_(size), name_(std::move(name)) {
    source_->check_range(offset, size);
  }

  std::uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }
  bool in_memory() const override { return source_->in_memory(); }

  void read(std::span<const Range> ranges) const override {
    std::vector<Range> moved(ranges.begin(), ranges.end());
    for (Range& range : moved) {
      check_range(range.offset, range.into.size());
      range.offset += offset_;
    }
    source_->read(moved);
  }

  void read_each(std::span<const Part> parts, const Look& look) const override {
    std::vector<Part> moved(parts.begin(), parts.end());
    for (Part& part : moved) {
      check_range(part.offset, part.size);
      part.offset += offset_;
    }
    source_->read_each(moved, look);
  }
  bool shows_in_order() const override { return source_->shows_in_order(); }

  SharedBytes view(std::uint64_t offset, std::uint64_t bytes) const override {
    check_range(offset, bytes);
    return source_->view(offset_ + offset, bytes);
  }

 private:
  std::shared_ptr<const ByteSource> source_;
  std::uint64_t offset_;
  std::uint64_t size_;
  std::string name_;
};

}  // namespace

std::shared_ptr<const ByteSource> part_of(std::shared_ptr<const ByteSource> source,
                                          std::uint64_t offset, std::uint64_t size,
                                          std::string name) {
  return std::make_shared<const PartSource>(std::move(source), offset, size, std::move(name));
}

SharedBytes read_bytes(const ByteSource& source, std::uint64_t offset, std::uint64_t size) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
  source.check_range(offset, size);
  if (source.in_memory() || size > kMaxBytes) return source.view(offset, size);
  const auto buffer = std::make_shared<std::vector<std::byte>>(size);
  const ByteSource::Range range{offset, *buffer};
  if (size > 0) source.read({&range, 1});
  return {ByteView(*buffer), buffer};
}

SharedBytes read_all(const ByteSource& source) { return read_bytes(source, 0, source.size()); }

void read_in_blocks(const ByteSource& source, const std::function<void(ByteView block)>& take) {
  constexpr std::uint64_t kBlockBytes = std::uint64_t{8} << 20;
  if (source.shows_in_order()) {
    const ByteSource::Part all{.offset = 0, .size = source.size()};
    return source.read_each({&all, 1}, [&](auto, auto, ByteView bytes) { take(bytes); });
  }
  std::vector<std::byte> block;
  for (std::uint64_t begin = 0; begin < source.size(); begin += kBlockBytes) {
    const std::uint64_t bytes = std::min(kBlockBytes, source.size() - begin);
    if (source.in_memory()) {
      take(source.view(begin, bytes).view);
      continue;
    }
    block.resize(bytes);
    const ByteSource::Range range{begin, block};
    source.read({&range, 1});
    take(block);
  }
}

SharedBytes read_start(const ByteSource& source, std::uint64_t size) {
  return read_bytes(source, 0, std::min(size, source.size()));
}

}  // namespace cairn
