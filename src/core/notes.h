// Collects lines from any thread, until the thread that has a logger takes them.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

// Thread-safe.
class Notes {
 public:
  void add(std::string line) {
    const std::scoped_lock lock(mutex_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace cairn
