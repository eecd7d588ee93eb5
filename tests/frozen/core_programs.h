// Frozen: users' programs, see CMakeLists.txt.
#pragma once

#include "program.h"

namespace frozen {

void own_store(const std::string& folder);
void wrapped_store(const std::string& folder);
void checkpoint_api(const std::string& folder);
void times_and_names(const std::string& folder);

}  // namespace frozen
