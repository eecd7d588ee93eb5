// Man pages, in roff, from what CLI11 was told.
#pragma once

#include <map>
#include <string>

#include "cli/manual/app_tree.h"

namespace cairn::cli {

// "cairn.1", and "cairn-ls.1" of each command, with their text.
std::map<std::string, std::string> manual_pages(const CommandInfo& tool);

}  // namespace cairn::cli
