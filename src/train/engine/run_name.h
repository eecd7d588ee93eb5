// The name of a run: run_name, else COMPOSER_RUN_NAME, else RUN_NAME, else an invented one.
#pragma once

#include <optional>
#include <string>

namespace cairn {

// The environment's name; nullopt when neither variable is set, or it is empty.
std::optional<std::string> run_name_of_environment();

// "<unix seconds>-<two words>", "1654298855-amber-otter": sorts by time, and differs between runs
// also when their seeds are equal.
std::string invent_run_name();

}  // namespace cairn
