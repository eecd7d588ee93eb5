// Walks through the pages of one list.
#pragma once

#include <set>
#include <string>
#include <utility>

namespace cairn {

// Notices a server whose pages form a circle, so that no caller follows them for ever.
class Pages {
 public:
  // `what` is the list's name in messages.
  explicit Pages(std::string what) : what_(std::move(what)) {}

  // The token of the page to ask for; "" for the first one.
  const std::string& now() const { return now_; }
  // Continues with `next`, the token that the page gave. Returns false after the last page ("").
  // Throws StorageError if an earlier page had the token `next`, or there are more pages than any
  // folder has.
  bool advance(const std::string& next);
  // The number of advance() calls that found a next page.
  std::size_t count() const { return seen_.size(); }

 private:
  std::string what_;
  std::string now_ = {};
  std::set<std::string> seen_ = {};
};

// These functions throw the StorageErrors of advance().
[[noreturn]] void refuse_page_again(const std::string& what);
[[noreturn]] void refuse_endless(const std::string& what);

}  // namespace cairn
