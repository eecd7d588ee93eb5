// Scripts that complete the tool's command line, one for each shell.
#pragma once

#include <string>

#include "cli/manual/app_tree.h"

namespace cairn::cli {

std::string bash_completion(const CommandInfo& tool);
std::string zsh_completion(const CommandInfo& tool);
std::string fish_completion(const CommandInfo& tool);

}  // namespace cairn::cli
