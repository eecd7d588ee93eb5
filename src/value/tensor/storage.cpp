// The kinds of storages that need only the core.
#include <algorithm>
#include <cstring>

#include "cairn/detail/node_arena.h"
#include "cairn/error.h"
#include "cairn/tensor.h"

namespace cairn {
namespace {

// A larger part may not fit into memory; load() can handle that.
constexpr std::uint64_t kMaxReadAlone = std::uint64_t{32} << 20;

class MemoryStorage final : public Storage {
 public:
  MemoryStorage(SharedBytes bytes, std::string location)
      : Storage(bytes.view.size(), std::move(location)), bytes_(std::move(bytes)) {}

  std::optional<SharedBytes> try_view() const override { return bytes_; }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    const ByteView part = bytes_.view.subspan(offset, into.size());
    std::memcpy(into.data(), part.data(), part.size());
    bytes_.release(part);
  }

 private:
  SharedBytes bytes_;
};

class RangeStorage final : public Storage {
 public:
  RangeStorage(std::shared_ptr<const ByteSource> source, std::uint64_t offset, std::uint64_t size,
               std::string location)
      : Storage(size, std::move(location)), source_(std::move(source)), offset_(offset) {}

  std::optional<SharedBytes> try_view() const override {
    if (!source_->in_memory()) return std::nullopt;
    return load();
  }
  const ByteSource* source() const override { return source_.get(); }
  std::uint64_t source_offset() const override { return offset_; }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    const ByteSource::Range range{offset_ + offset, into};
    source_->read({&range, 1});
  }
  SharedBytes load() const override { return source_->view(offset_, size()); }

 private:
  std::shared_ptr<const ByteSource> source_;
  std::uint64_t offset_;
};

class MadeStorage final : public Storage {
 public:
  MadeStorage(std::uint64_t size, std::function<SharedBytes()> make, std::string location)
      : Storage(size, std::move(location)), make_(std::move(make)) {}

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    const SharedBytes made = bytes();
    std::memcpy(into.data(), made.view.data() + offset, into.size());
  }
  SharedBytes load() const override { return make_(); }

 private:
  std::function<SharedBytes()> make_;
};

}  // namespace

void Storage::check_range(std::uint64_t offset, std::uint64_t size) const {
  if (offset <= size_ && size <= size_ - offset) return;
  throw UsageError("bytes " + std::to_string(offset) + " to " + std::to_string(offset + size) +
                   " of a storage were asked for, but it has " + std::to_string(size_));
}

void Storage::read_into(std::uint64_t offset, std::span<std::byte> into) const {
  check_range(offset, into.size());
  if (!into.empty()) read(offset, into);
}

SharedBytes Storage::bytes() const {
  if (auto view = try_view()) return *std::move(view);
  SharedBytes loaded = load();
  if (loaded.view.size() != size_) {
    throw CorruptError("a storage of " + std::to_string(size_) + " bytes was loaded with " +
                       std::to_string(loaded.view.size()));
  }
  return loaded;
}

SharedBytes Storage::bytes(std::uint64_t offset, std::uint64_t size) const {
  check_range(offset, size);
  if (const auto view = try_view()) return view->part(offset, size);
  if (size == size_) return bytes();
  if (source() != nullptr) return source()->view(source_offset() + offset, size);
  if (size > kMaxReadAlone) return bytes().part(offset, size);
  const auto part = std::make_shared<std::vector<std::byte>>(size);
  read_into(offset, *part);
  return {ByteView(*part), part};
}

SharedBytes Storage::load() const {
  const auto buffer = std::make_shared<std::vector<std::byte>>(size_);
  read_into(0, *buffer);
  return {ByteView(*buffer), buffer};
}

std::shared_ptr<const Storage> storage_of(SharedBytes bytes, std::string location) {
  return std::allocate_shared<const MemoryStorage>(detail::NodeAllocator<MemoryStorage>(),
                                                   std::move(bytes), std::move(location));
}

std::shared_ptr<const Storage> storage_of(std::shared_ptr<const ByteSource> source,
                                          std::uint64_t offset, std::uint64_t size,
                                          std::string location) {
  return std::allocate_shared<const RangeStorage>(
      detail::NodeAllocator<RangeStorage>(), std::move(source), offset, size, std::move(location));
}

std::shared_ptr<const Storage> storage_of(std::uint64_t size, std::function<SharedBytes()> make,
                                          std::string location) {
  return std::allocate_shared<const MadeStorage>(detail::NodeAllocator<MadeStorage>(), size,
                                                 std::move(make), std::move(location));
}

}  // namespace cairn
