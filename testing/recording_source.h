// Sources that note every range that is read from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cairn/byte_source.h"

#include "testing/faulty_file_system.h"

namespace cairn::testing {

class RecordingSource final : public ByteSource {
 public:
  explicit RecordingSource(std::shared_ptr<const ByteSource> under) : under_(std::move(under)) {}
  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  void read(std::span<const Range> ranges) const override {
    under_->read(ranges);
    const std::lock_guard lock(mutex_);
    for (const Range& range : ranges) {
      read_.emplace_back(range.offset, range.offset + range.into.size());
    }
  }

  void forget() const { read_.clear(); }
  // How often each byte of [begin, end) was read.
  std::vector<int> counts(std::uint64_t begin, std::uint64_t end) const {
    std::vector<int> of_bytes(end - begin);
    for (const auto& [first, last] : read_) {
      for (std::uint64_t i = std::max(first, begin); i < std::min(last, end); ++i) {
        ++of_bytes[i - begin];
      }
    }
    return of_bytes;
  }
  // The smallest and the largest of counts(begin, end).
  std::pair<int, int> times(std::uint64_t begin, std::uint64_t end) const {
    const std::vector<int> of_bytes = counts(begin, end);
    const auto [least, most] = std::minmax_element(of_bytes.begin(), of_bytes.end());
    return {*least, *most};
  }

 private:
  std::shared_ptr<const ByteSource> under_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::uint64_t, std::uint64_t>> read_;
};

// Every file that is opened is a recording source.
class RecordingFiles final : public FaultyFileSystem {
 public:
  explicit RecordingFiles(FileSystem& under) : FaultyFileSystem(under), under_files_(under) {}

  std::shared_ptr<const ByteSource> open(const std::string& path) override {
    opened.push_back(std::make_shared<const RecordingSource>(under_files_.open(path)));
    return opened.back();
  }

  std::vector<std::shared_ptr<const RecordingSource>> opened;

 private:
  FileSystem& under_files_;
};

}  // namespace cairn::testing
