// Copies an object while it is read.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "cairn/byte_source.h"

namespace cairn {

// Writes the bytes that read_each() shows to `out`, in order from the first byte of the object on.
// finish() reads and writes the rest. If bytes are shown before the bytes that precede them in the
// object, only finish() writes them. Thread-safe.
class CopiedSource final : public ByteSource {
 public:
  // `under` and `out` must outlive this object.
  CopiedSource(std::shared_ptr<const ByteSource> under, ByteSink& out)
      : under_(std::move(under)), out_(out) {}

  void finish() const;

  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  bool in_memory() const override { return under_->in_memory(); }
  bool shows_in_order() const override { return under_->shows_in_order(); }
  void read(std::span<const Range> ranges) const override { under_->read(ranges); }
  void read_each(std::span<const Part> parts, const Look& look) const override;
  SharedBytes view(std::uint64_t offset, std::uint64_t bytes) const override {
    return under_->view(offset, bytes);
  }

 private:
  std::uint64_t written() const;
  void pass(std::uint64_t offset, ByteView bytes) const;

  const std::shared_ptr<const ByteSource> under_;
  ByteSink& out_;
  mutable std::mutex mutex_;
  mutable std::uint64_t written_ = 0;  // the number of bytes written, from the beginning on
};

}  // namespace cairn
