#include "cairn/byte_source.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cairn/error.h"

namespace cairn {
namespace {

class MemorySource final : public ByteSource {
 public:
  MemorySource(SharedBytes bytes, std::string name)
      : bytes_(std::move(bytes)), name_(std::move(name)) {}

  std::uint64_t size() const override { return bytes_.view.size(); }
  const std::string& name() const override { return name_; }
  bool in_memory() const override { return true; }
  void read(std::span<const Range> ranges) const override {
    for (const Range& range : ranges) {
      check_range(range.offset, range.into.size());
      std::copy_n(bytes_.view.begin() + static_cast<std::ptrdiff_t>(range.offset),
                  range.into.size(), range.into.begin());
    }
  }
  SharedBytes view(std::uint64_t offset, std::uint64_t size) const override {
    check_range(offset, size);
    return bytes_.part(offset, size);
  }

 private:
  SharedBytes bytes_;
  std::string name_;
};

}  // namespace

void ByteSource::check_range(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset <= size() && bytes <= size() - offset) return;
  throw UsageError("bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) +
                   " of " + name() + " were asked for, which has " + std::to_string(size()));
}

SharedBytes ByteSource::view(std::uint64_t offset, std::uint64_t bytes) const {
  check_range(offset, bytes);
  const auto buffer = std::make_shared<std::vector<std::byte>>(bytes);
  const Range range{offset, *buffer};
  read({&range, 1});
  return {ByteView(*buffer), buffer};
}

std::shared_ptr<const ByteSource> source_of(SharedBytes bytes, std::string name) {
  return std::make_shared<const MemorySource>(std::move(bytes), std::move(name));
}

}  // namespace cairn
