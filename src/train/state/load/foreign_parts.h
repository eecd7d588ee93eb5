// What of a checkpoint this run has no use for, because Python's classes alone could read it.
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

class State;

// The paths below "state" of what the objects of this run will be asked to load: so many as it has
// objects, whatever `saved` has.
std::vector<std::string> needed_parts(const State& state, const Value& saved);

// Takes the foreign objects (cairn/foreign.h) out of `tree`, a dict, and returns a line for each
// class that says what was passed over. `needed` are paths: an object in one of them, or around it,
// is an UnsupportedError that names its key, its class and the way out, and nothing is changed.
// `prefix` stands before the paths in texts ("state/").
std::vector<std::string> pass_over_foreign(Value& tree, const std::vector<std::string>& needed,
                                           const std::string& prefix);

// The tree with Python's numbers in place of numpy's. What is one container at several places stays
// one: time and memory do not grow with the number of places.
Value with_plain_numbers(const Value& tree);

}  // namespace cairn
