#include "storage/pages.h"

#include "cairn/error.h"

namespace cairn {
namespace {

constexpr std::size_t kMaxPages = 100'000;  // mostly of a thousand names each

}  // namespace

bool Pages::advance(const std::string& next) {
  if (next.empty()) return false;
  if (!seen_.insert(next).second) refuse_page_again(what_);
  if (seen_.size() > kMaxPages) refuse_endless(what_);
  now_ = next;
  return true;
}

void refuse_page_again(const std::string& what) {
  throw StorageError("listing " + what + ": the server gives the same page again", 0,
                     /*retryable=*/true);
}

void refuse_endless(const std::string& what) {
  throw StorageError("listing " + what + ": the server sends page after page without an end", 0);
}

}  // namespace cairn
