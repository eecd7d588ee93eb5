// A terminal on which a view is drawn again and again, in the same place.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "terminal/terminal.h"

namespace cairn::cli {

class Screen {
 public:
  // `out` and what it refers to must outlive the screen. `size` is asked at every call, so that a
  // window may change. `color`: Console's colours may pass. All other control characters in lines
  // are made printable.
  Screen(std::ostream& out, bool color, std::function<TerminalSize()> size)
      : out_(out), color_(color), size_(std::move(size)) {}

  // 80 columns of 24 rows if the terminal does not say.
  TerminalSize size() const;

  // Replaces the view of the last call: first writes `log`, which stays and scrolls away as other
  // output does, and then `view`. A view that is larger than the terminal is cut. The last view
  // stays, and other output begins below it.
  void draw(const std::vector<std::string>& log, const std::vector<std::string>& view);

 private:
  void write_lines(std::ostream& text, const std::vector<std::string>& lines, std::size_t most);
  std::size_t rows_of_view() const;

  std::ostream& out_;
  bool color_;
  std::function<TerminalSize()> size_;
  std::vector<std::size_t> widths_;  // of the lines of the last view
};

}  // namespace cairn::cli
