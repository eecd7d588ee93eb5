#include "terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

namespace cairn {
namespace {

int descriptor_of(const std::ostream& stream) {
  if (&stream == &std::cout) return STDOUT_FILENO;
  return &stream == &std::cerr ? STDERR_FILENO : -1;
}

}  // namespace

bool is_terminal(const std::ostream& stream) {
  const int fd = descriptor_of(stream);
  return fd >= 0 && isatty(fd) == 1;
}

TerminalSize terminal_size(const std::ostream& stream) {
  winsize size = {};
  const bool is_known = is_terminal(stream) && ioctl(descriptor_of(stream), TIOCGWINSZ, &size) == 0;
  return is_known ? TerminalSize{size.ws_col, size.ws_row} : TerminalSize{};
}

int terminal_width(const std::ostream& stream) { return terminal_size(stream).columns; }

}  // namespace cairn
