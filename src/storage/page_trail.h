// The pages of one list, through which a server may lead for ever.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "cairn/error.h"

namespace cairn {

class PageTrail {
 public:
  // `where`: what is listed, for the error.
  explicit PageTrail(std::string where) : where_(std::move(where)) {}

  // Whether there is a page behind the one that gave `next`. StorageError when it was there before.
  bool goes_on(const std::string& next) {
    if (next.empty()) return false;
    if (seen_.insert(next).second) return true;
    throw StorageError(
        "listing " + where_ + ": the server leads back to a page that was there before", 0,
        /*retryable=*/true);
  }

 private:
  const std::string where_;
  std::set<std::string> seen_ = {};
};

}  // namespace cairn
