// Command lines, put together by tests, and programs that are run to their end.
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

struct Ran {
  int exit_code;  // -1 when a signal ended it
  std::string output;
};

inline Ran run(const Command& command) {
  ChildProcess process(command);
  const int code = process.wait().exit_code;
  return {code, process.output()};
}

}  // namespace cairn::testing
