// Finds out whether the standard streams are connected to a terminal.
#pragma once

#include <ostream>

namespace cairn {

// Whether `stream` is std::cout or std::cerr, and is connected to a terminal.
bool is_terminal(const std::ostream& stream);

struct TerminalSize {
  int columns = 0;
  int rows = 0;
};
// The terminal's size now; zeros if `stream` is not a terminal.
TerminalSize terminal_size(const std::ostream& stream);

// The terminal's width in columns; 0 if `stream` is not a terminal.
int terminal_width(const std::ostream& stream);

}  // namespace cairn
