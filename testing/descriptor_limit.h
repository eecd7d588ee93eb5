// Sets `ulimit -n` until the end of the object.
#pragma once

#include <sys/resource.h>

#include <stdexcept>

namespace cairn::testing {

class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t most) {
    if (getrlimit(RLIMIT_NOFILE, &before_) != 0) throw std::runtime_error("getrlimit");
    const struct rlimit limit = {most, before_.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("setrlimit");
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  struct rlimit before_ = {};
};

}  // namespace cairn::testing
