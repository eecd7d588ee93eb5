// Man pages in roff, made from the declarations to CLI11.
#pragma once

#include <map>
#include <string>

#include "cli/manual/app_tree.h"

namespace cairn::cli {

// The texts of "cairn.1", and of "cairn-ls.1" and the like for each command.
std::map<std::string, std::string> manual_pages(const CommandInfo& tool);

}  // namespace cairn::cli
