#include "storage/load_store.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "io/threads/parallel.h"
#include "storage/forwarding_store.h"

namespace cairn {
namespace {

constexpr unsigned kRequestsAtOnce = 4;

class LoadSource final : public ByteSource {
 public:
  LoadSource(std::shared_ptr<const ByteSource> under, LoadStoreOptions options)
      : under_(std::move(under)), options_(std::move(options)) {}

  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  bool in_memory() const override { return under_->in_memory(); }

  void read(std::span<const Range> ranges) const override {
    const std::vector<Range> chunks = cut(ranges);
    if (options_.chunk_bytes == 0 || chunks.size() <= 1) {
      under_->read(ranges);
      for (const Range& range : ranges) {
        count(range.into.size());
      }
      return;
    }
    for_each_parallel(
        chunks.size(),
        [&](std::size_t i) {
          under_->read({&chunks[i], 1});
          count(chunks[i].into.size());
        },
        ~std::uint64_t{0}, kRequestsAtOnce);
  }

  void read_each(std::span<const Part> parts, const Look& look) const override {
    if (options_.chunk_bytes != 0) return ByteSource::read_each(parts, look);
    begin();
    under_->read_each(parts, [&](std::size_t part, std::uint64_t at, ByteView bytes) {
      if (options_.on_read) options_.on_read(bytes.size());
      look(part, at, bytes);
    });
  }

  bool shows_in_order() const override {
    return options_.chunk_bytes == 0 && under_->shows_in_order();
  }

  SharedBytes view(std::uint64_t offset, std::uint64_t bytes) const override {
    if (options_.chunk_bytes != 0 && bytes > options_.chunk_bytes && !in_memory()) {
      return ByteSource::view(offset, bytes);
    }
    SharedBytes found = under_->view(offset, bytes);
    count(bytes);
    return found;
  }

 private:
  std::vector<Range> cut(std::span<const Range> ranges) const {
    std::vector<Range> chunks;
    const std::uint64_t most = options_.chunk_bytes == 0 ? ~std::uint64_t{0} : options_.chunk_bytes;
    for (const Range& range : ranges) {
      check_range(range.offset, range.into.size());
      for (std::uint64_t done = 0; done < range.into.size();) {
        const std::uint64_t now = std::min<std::uint64_t>(most, range.into.size() - done);
        chunks.push_back({range.offset + done, range.into.subspan(done, now)});
        done += now;
      }
    }
    return chunks;
  }

  void begin() const {
    if (!has_begun_.exchange(true) && options_.on_first_read) options_.on_first_read(size());
  }
  void count(std::uint64_t bytes) const {
    begin();
    if (options_.on_read) options_.on_read(bytes);
  }

  const std::shared_ptr<const ByteSource> under_;
  const LoadStoreOptions options_;
  mutable std::atomic<bool> has_begun_ = false;
};

class LoadStore final : public ForwardingStore {
 public:
  LoadStore(std::shared_ptr<ObjectStore> under, LoadStoreOptions options)
      : ForwardingStore(std::move(under)), options_(std::move(options)) {}
  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    return std::make_shared<const LoadSource>(under_->open(name), options_);
  }

 private:
  const LoadStoreOptions options_;
};

}  // namespace

std::shared_ptr<ObjectStore> load_store(std::shared_ptr<ObjectStore> under,
                                        LoadStoreOptions options) {
  return std::make_shared<LoadStore>(std::move(under), std::move(options));
}

}  // namespace cairn
