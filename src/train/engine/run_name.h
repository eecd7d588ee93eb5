// The name of a run: run_name, else COMPOSER_RUN_NAME, else RUN_NAME, else an invented one.
#pragma once

#include <optional>
#include <string>

namespace cairn {

// The name from the environment; nullopt if both variables are unset or empty.
std::optional<std::string> run_name_of_environment();

// "<unix seconds>-<two words>", such as "1654298855-amber-otter". Sorts by time, and differs
// between runs even if their seeds are equal.
std::string invent_run_name();

}  // namespace cairn
