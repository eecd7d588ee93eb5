// The options of the Trainer that wrote a checkpoint. They stand in the checkpoint's "metadata",
// for people: no run reads them back.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cairn/value.h"

namespace cairn {

// Their key in "metadata". Composer has no such entry, and passes over it.
inline constexpr const char* kRunOptions = "trainer_options";

// Pairs of name and text, in the order of the file.
using RunOptions = std::vector<std::pair<std::string, std::string>>;

// Empty if the checkpoint has none, as Composer's, or has something else in their place.
RunOptions run_options(const Value& checkpoint);
// Removes from the checkpoint what run_options() returns, for those who look at the state alone.
RunOptions take_run_options(Value& checkpoint);

}  // namespace cairn
