#include <csignal>
#include <iostream>
#include <new>

#include "cairn/exit_code.h"

#include "cli/shell/tool.h"

int main(int argc, char** argv) try {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has seen enough is an error of write(), no death
  std::ios::sync_with_stdio(false);
  return cairn::cli::run_tool({argv + 1, argv + argc}, std::cout, std::cerr);
} catch (const std::bad_alloc&) {
  std::cerr << "cairn: there is not enough memory\n";
  return cairn::kFailed;
}
