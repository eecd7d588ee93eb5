// The pages of one list, to its end.
#pragma once

#include <set>
#include <string>
#include <utility>

namespace cairn {

// A server that leads in a circle would be followed for ever.
class Pages {
 public:
  // `what` is listed, for messages.
  explicit Pages(std::string what) : what_(std::move(what)) {}

  // The token of the page to ask for; "" for the first one.
  const std::string& now() const { return now_; }
  // Goes on to `next`, which the page gave; false when that was the last one (""). StorageError
  // when it was there before, and when there are more pages than any folder has.
  bool go_on(const std::string& next);
  // How many it went on to.
  std::size_t count() const { return seen_.size(); }

 private:
  std::string what_;
  std::string now_ = {};
  std::set<std::string> seen_ = {};
};

// StorageError: what go_on() throws.
[[noreturn]] void refuse_page_again(const std::string& what);
[[noreturn]] void refuse_endless(const std::string& what);

}  // namespace cairn
