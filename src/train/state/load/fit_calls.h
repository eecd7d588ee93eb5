// State::fit_calls as a checkpoint holds it: the entry "fit_calls" beside the Timestamp, which
// Composer and older versions of cairn pass over.
//
//   {"finished": 1, "end": "2ep", "open": [{"duration": "3ep", "begin": "2ep", "end": "5ep"}]}
#pragma once

#include <optional>

#include "cairn/train/state.h"
#include "cairn/value.h"

namespace cairn {

// nullopt for a run of one fit() up to max_duration, which needs no note: its files have the
// entries that Composer's have. The end of the call under way is State::max_duration, which
// callbacks move.
std::optional<Value> fit_calls_value(const State& state);

// MismatchError, UsageError for anything that fit_calls_value() does not give.
FitCalls fit_calls_from(const Value& value);

}  // namespace cairn
