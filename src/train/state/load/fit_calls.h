// State::fit_calls in a checkpoint: the entry "fit_calls" beside the Timestamp. Composer and older
// versions of cairn ignore it.
//
//   {"finished": 1, "end": "2ep", "open": [{"duration": "3ep", "begin": "2ep", "end": "5ep"}]}
#pragma once

#include <optional>

#include "cairn/train/state.h"
#include "cairn/value.h"

namespace cairn {

// Nullopt for a run of one fit() up to max_duration: such a run needs no entry, so its files have
// the same entries as Composer's files. The end of the current call is State::max_duration, which
// callbacks may move.
std::optional<Value> fit_calls_value(const State& state);

// Throws MismatchError or UsageError for anything that fit_calls_value() does not return.
FitCalls fit_calls_from(const Value& value);

}  // namespace cairn
