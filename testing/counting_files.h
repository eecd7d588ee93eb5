// Files that are far away: each read is a request, and is counted.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "testing/counting_source.h"
#include "testing/faulty_file_system.h"

namespace cairn::testing {

class CountingFiles final : public FaultyFileSystem {
 public:
  explicit CountingFiles(FileSystem& under) : FaultyFileSystem(under), under_files_(under) {}

  std::shared_ptr<const ByteSource> open(const std::string& path) override {
    opened_.push_back(std::make_shared<const CountingSource>(under_files_.open(path)));
    return opened_.back();
  }

  std::size_t opened() const { return opened_.size(); }
  std::uint64_t reads() const { return sum(&CountingSource::reads); }
  std::uint64_t bytes() const { return sum(&CountingSource::bytes); }
  void reset() {
    for (const auto& source : opened_) {
      source->reads = 0;
      source->bytes = 0;
    }
  }

 private:
  std::uint64_t sum(std::atomic<std::uint64_t> CountingSource::*count) const {
    return std::accumulate(
        opened_.begin(), opened_.end(), std::uint64_t{0},
        [&](std::uint64_t all, const auto& source) { return all + (*source).*count; });
  }

  FileSystem& under_files_;
  std::vector<std::shared_ptr<const CountingSource>> opened_;
};

}  // namespace cairn::testing
