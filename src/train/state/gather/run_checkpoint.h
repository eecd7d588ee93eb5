// Recognises a checkpoint of a run, and lists the parts of it that a load leaves alone.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {
class State;
}  // namespace cairn

namespace cairn {

// Says why the file cannot be a checkpoint of a run, as a part of a sentence: "it has no ...".
// Every checkpoint of a run has a dict "state" with a "model", whatever else was left out when it
// was saved. Empty if the file may be a checkpoint of a run. Many other files have a "state", such
// as an optimizer's state_dict().
std::string why_no_run(const Value& checkpoint);
// Throws MismatchError if `checkpoint`, which was made from the file, cannot be a checkpoint of a
// run either. `why`: the result of why_no_run() for the file.
void require_run(const Value& checkpoint, const std::string& why);

// Names in the "state/model" of `before` that `after` no longer has. A tensor that has a new name
// in `after` was renamed, not left out.
std::set<std::string> names_left_out(const Value& before, const Value& after);

// Whether `saved`, the "state" of a checkpoint, has only the model and descriptions, and no part
// that training needs to continue.
bool holds_only_weights(const Value& saved);

// The paths of saved states that no object of this run takes. `saved` is the "state" of
// `checkpoint`, in the present layout.
std::vector<std::string> unused_parts(const State& state, const Value& saved,
                                      const Value& checkpoint);

}  // namespace cairn
