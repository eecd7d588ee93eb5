// Builds command lines for tests, and runs programs to their end.
#pragma once

#include <string>
#include <vector>

#include "testing/child_process.h"

namespace cairn::testing {

using Command = std::vector<std::string>;

inline Command operator+(Command command, const Command& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

struct CommandResult {
  int exit_code;  // -1 if a signal ended the program.
  std::string output;
};

inline CommandResult run(const Command& command) {
  ChildProcess process(command);
  const int code = process.wait().exit_code;
  return {code, process.output()};
}

}  // namespace cairn::testing
