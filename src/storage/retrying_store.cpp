#include "storage/retrying_store.h"

#include <utility>

#include "storage/forwarding_store.h"

namespace cairn {
namespace {

class RetryingSource final : public ByteSource {
 public:
  RetryingSource(std::shared_ptr<const ByteSource> under, RetryPolicy retry)
      : under_(std::move(under)), retry_(std::move(retry)) {}

  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  bool in_memory() const override { return under_->in_memory(); }
  void read(std::span<const Range> ranges) const override {
    with_retries(retry_, [&] { under_->read(ranges); });
  }
  SharedBytes view(std::uint64_t offset, std::uint64_t size) const override {
    return with_retries(retry_, [&] { return under_->view(offset, size); });
  }
  // read_each() is the default one, which calls read(): bytes that were shown to the caller cannot
  // be shown again.

 private:
  const std::shared_ptr<const ByteSource> under_;
  const RetryPolicy retry_;
};

class RetryingStore final : public ForwardingStore {
 public:
  RetryingStore(std::shared_ptr<ObjectStore> under, RetryPolicy retry)
      : ForwardingStore(std::move(under)), retry_(std::move(retry)) {}

  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    return with_retries(retry_, [&] { return under_->stat(name, follow); });
  }
  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    auto opened = with_retries(retry_, [&] { return under_->open(name); });
    return std::make_shared<const RetryingSource>(std::move(opened), retry_);
  }
  ListPage list(const std::string& folder, const std::string& page) override {
    return with_retries(retry_, [&] { return under_->list(folder, page); });
  }
  std::optional<Pointer> read_pointer(const std::string& name) override {
    return with_retries(retry_, [&] { return under_->read_pointer(name); });
  }
  bool is_being_written(const std::string& name) override {
    return with_retries(retry_, [&] { return under_->is_being_written(name); });
  }

 private:
  const RetryPolicy retry_;
};

}  // namespace

std::shared_ptr<ObjectStore> retrying_store(std::shared_ptr<ObjectStore> under, RetryPolicy retry) {
  return std::make_shared<RetryingStore>(std::move(under), std::move(retry));
}

}  // namespace cairn
