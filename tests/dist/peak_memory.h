// The peak of a process's memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

// The peak of this process's memory since begin(), minus its memory at that time.
class PeakMemory {
 public:
  void begin() {
    std::ofstream("/proc/self/clear_refs") << 5;
    before_ = kilobytes("VmHWM:");
  }
  std::int64_t bytes() const { return (kilobytes("VmHWM:") - before_) * 1024; }

 private:
  static std::int64_t kilobytes(const std::string& key) {
    std::ifstream file("/proc/self/status");
    for (std::string word; file >> word;) {
      std::int64_t number = 0;
      if (word == key && file >> number) return number;
    }
    return 0;
  }
  std::int64_t before_ = 0;
};
