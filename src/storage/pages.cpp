#include "storage/pages.h"

#include "cairn/error.h"

namespace cairn {

bool Pages::go_on(const std::string& next) {
  if (next.empty()) return false;
  if (!seen_.insert(next).second) refuse_page_again(what_);
  now_ = next;
  return true;
}

void refuse_page_again(const std::string& what) {
  throw StorageError("listing " + what + ": the server gives the same page again", 0,
                     /*retryable=*/true);
}

}  // namespace cairn
