// Frozen: users' programs, see CMakeLists.txt.
#pragma once

#include "program.h"

namespace frozen {

void own_loop(const std::string& folder);
void own_loop_with_state(const std::string& folder);
void own_parts(const std::string& folder);
void own_logger(const std::string& folder);
void own_place(const std::string& folder);
void whole_trainer(const std::string& folder);
void two_savers(const std::string& folder);
void interrupted_run(const std::string& folder);
void trainer_in_own_stores(const std::string& folder);

}  // namespace frozen
