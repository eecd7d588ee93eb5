// Numbers the calls of fit(), so that a restarted program finds its position.
//
//  1. Every call of fit() takes the next number of this process, even if the call fails. Only a
//     call whose options are refused takes none.
//  2. Autoresume gives the calls that the checkpoint knows. A call of this process whose number the
//     checkpoint knows is that same call: its earlier training counts, its end stays where it was,
//     and its time is not set back again.
//  3. A call that reached its end is finished, and so are all calls before it. If a program
//     continues after a call threw, that call is finished, too.
//  4. A finished call returns at once. A call without a duration does so only if a later call
//     began. Otherwise max_duration decides, which may have been raised since.
//  5. A number that the checkpoint does not know is a new call: its end is counted from now. If the
//     checkpoint knows no calls at all, the first is taken to have begun with the run.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/train/state.h"

namespace cairn {

class FitNumbers {
 public:
  // Step 2. nullopt: the checkpoint says nothing about calls.
  void resume(std::optional<FitCalls> known);

  struct Start {
    std::int64_t number = 0;         // From 1.
    bool is_over = false;            // Step 4: `end` is its max_duration.
    bool is_known = false;           // Step 2.
    std::optional<Time> begin = {};  // If the call began earlier.
    std::optional<Time> end = {};    // If the call is known; set by its duration or a callback.
  };
  // Steps 1 to 4, for a call with this duration. Throws UsageError if the run knows the call with a
  // duration in another unit.
  Start next(const std::optional<Time>& duration);
  // Step 5: notes the end of a call that has a duration or sets the time back. Call it after
  // next(), when the duration and the new time have taken effect. Other calls need no note.
  void note(const FitCall& call);
  // Step 3, for the call of the last next().
  void finish(const Time& end);

  // Whether this is the first call after a resume from a checkpoint that knows no calls.
  bool is_unknown(const Start& start) const { return is_silent_ && start.number == 1; }
  const FitCalls& calls() const { return calls_; }

 private:
  Start known_call(std::size_t index, const std::optional<Time>& duration);

  FitCalls calls_;
  std::int64_t made_ = 0;   // In this process.
  bool is_silent_ = false;  // Resumed from a checkpoint that knows no calls.
};

}  // namespace cairn
