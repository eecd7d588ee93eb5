#include <csignal>
#include <iostream>
#include <new>

#include "cairn/exit_code.h"

#include "cli/shell/tool.h"

int main(int argc, char** argv) try {
  // A reader that closes early is an error of write(), not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::ios::sync_with_stdio(false);
  return cairn::cli::run_tool({argv + 1, argv + argc}, std::cout, std::cerr);
} catch (const std::bad_alloc&) {
  std::cerr << "cairn: there is not enough memory\n";
  return cairn::kFailed;
}
