// The tool as a function, so that tests need no process.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace cairn::cli {

// Does what `cairn ARGUMENTS...` does, and returns its exit code. Throws nothing.
int run_tool(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace cairn::cli
