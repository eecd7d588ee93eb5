// Limits lines of one kind, of which there may be thousands. The first few are printed, the others
// counted.
#pragma once

#include <cstddef>

namespace cairn {

class FewLines {
 public:
  // Whether the next line is one of the few.
  bool take() { return ++count_ <= kMost; }
  // How many lines were left out.
  std::size_t left_out() const { return count_ > kMost ? count_ - kMost : 0; }

 private:
  static constexpr std::size_t kMost = 5;
  std::size_t count_ = 0;
};

}  // namespace cairn
