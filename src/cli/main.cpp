#include <csignal>
#include <iostream>

#include "cli/shell/tool.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has seen enough is an error of write(), no death
  std::ios::sync_with_stdio(false);
  return cairn::cli::run_tool({argv + 1, argv + argc}, std::cout, std::cerr);
}
