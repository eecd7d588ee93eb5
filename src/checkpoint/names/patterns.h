// Patterns for paths that remember whether they matched.
#pragma once

#include <string>
#include <vector>

namespace cairn {

class Patterns {
 public:
  // As glob_match() takes them. Borrowed.
  explicit Patterns(const std::vector<std::string>& patterns)
      : patterns_(patterns), has_matched_(patterns.size()) {}

  // Whether any matches. All are tried.
  bool match(const std::string& path);

  // Those that never did.
  std::vector<std::string> unmatched() const;

 private:
  const std::vector<std::string>& patterns_;
  std::vector<bool> has_matched_;
};

}  // namespace cairn
