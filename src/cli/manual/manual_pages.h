// Man pages in roff, made from the description of the command line (app_tree.h).
#pragma once

#include <map>
#include <string>

#include "cli/manual/app_tree.h"

namespace cairn::cli {

// Returns the text of each page by its name: "cairn.1", and "cairn-ls.1" and the like for each
// command.
std::map<std::string, std::string> manual_pages(const CommandInfo& tool);

}  // namespace cairn::cli
