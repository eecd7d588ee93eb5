// Parts of a checkpoint that this run does not need, and that only Python's classes could read.
#pragma once

#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {
class State;
}  // namespace cairn

namespace cairn {

// The paths below "state" that the objects of this run will load: as many as the run has objects,
// whatever `saved` has.
std::vector<std::string> needed_parts(const State& state, const Value& saved);

// Removes the foreign objects (cairn/foreign.h) from `tree`, a dict. Returns a line for each class
// that says what was passed over. `needed` are paths. For an object inside or around a needed path,
// throws UnsupportedError with the object's key, its class and the way out; nothing is changed
// then. `prefix` is put before the paths in texts ("state/").
std::vector<std::string> pass_over_foreign(Value& tree, const std::vector<std::string>& needed,
                                           const std::string& prefix);

// The tree with Python's numbers in place of numpy's. A shared container stays shared, so time and
// memory do not grow with the number of places.
Value with_plain_numbers(const Value& tree);

}  // namespace cairn
