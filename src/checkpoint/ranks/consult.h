// A consultation: all ranks find something out together without changing anything, such as which
// rank saves what, or where to resume. A consultation succeeds on all ranks, or fails on all ranks
// with the same error.
#pragma once

#include <exception>
#include <string>

#include "checkpoint/ranks/roll_call.h"

namespace cairn {

// Throws RankFailure, which says that this rank cannot reach the others because of `rank`.
[[noreturn]] void throw_rank_failure(const RollCall& call, std::int64_t rank,
                                     const std::string& why);
// For a rank that has failed with `own`. Decides against the call, if nothing is decided yet, and
// throws the verdict that stands for all ranks.
[[noreturn]] void refuse(RollCall& call, const Verdict& own);
// Decides for the call. For rank 0, after it has all that it needs from the other ranks. Throws
// RollCall::Settled if the decision was against this call.
void decide_for(RollCall& call);
// Decides against the call, for a fault of another rank or of no rank. For rank 0, before it has
// decided.
[[noreturn]] void decide_against(RollCall& call, const Verdict& verdict);

// Calls body(call) and returns its result, which is the result for this rank only. `body` must call
// decide_for() or decide_against() on rank 0, and call.wait_for_decision() on the other ranks.
// `doing` says in messages what the body does. Throws what throw_verdict() throws, and RankFailure.
template <class Body>
auto consult(RankTable& table, const std::string& what, const std::string& doing,
             const Body& body) {
  RollCall call(table, what);
  try {
    call.begin();
    auto result = body(call);
    call.end();
    return result;
  } catch (const RollCall::Settled& settled) {
    call.end();
    throw_verdict(settled.verdict, call.what());
  } catch (const RollCall::Unknown& unknown) {
    throw_rank_failure(call, unknown.rank, "was not heard from any more");
  } catch (const MeetingError& e) {
    throw_rank_failure(call, 0, e.what());
  } catch (const std::exception&) {
    refuse(call, verdict_of_current(call.me().rank, doing));
  }
}

}  // namespace cairn
