// Runs the tool without a new process.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "cairn/exit_code.h"

#include "cli/shell/tool.h"

namespace cairn::cli {

struct Answer {
  int code;
  std::string out;
  std::string err;
};

inline Answer run(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_tool(arguments, out, err);
  return {code, out.str(), err.str()};
}

}  // namespace cairn::cli
