// Limits lines of one kind, of which there may be thousands. The first few are printed, the others
// counted.
#pragma once

#include <cstddef>

namespace cairn {

class FewLines {
 public:
  // Whether the next line is one of the few.
  bool take() { return ++count_ <= kMax; }
  // How many lines were left out.
  std::size_t left_out() const { return count_ > kMax ? count_ - kMax : 0; }

 private:
  static constexpr std::size_t kMax = 5;
  std::size_t count_ = 0;
};

}  // namespace cairn
