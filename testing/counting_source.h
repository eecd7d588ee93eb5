// A source that is far away: it has no views, and counts every read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cairn/byte_source.h"

namespace cairn::testing {

class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(std::shared_ptr<const ByteSource> under) : under_(std::move(under)) {}

  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  void read(std::span<const Range> ranges) const override {
    ++reads;
    for (const Range& range : ranges) {
      bytes += range.into.size();
    }
    under_->read(ranges);
  }

  mutable std::atomic<std::uint64_t> reads = 0;  // calls
  mutable std::atomic<std::uint64_t> bytes = 0;

 private:
  std::shared_ptr<const ByteSource> under_;
};

}  // namespace cairn::testing
