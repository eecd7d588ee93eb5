// Something that all ranks find out together, and that changes nothing: who saves what, where to go
// on from. It succeeds on all of them, or fails on all with one error.
#pragma once

#include <exception>
#include <string>

#include "checkpoint/ranks/roll_call.h"

namespace cairn {

// For messages. Throws RankFailure.
[[noreturn]] void throw_unheard(const RollCall& call, std::int64_t rank, const std::string& why);
// This rank failed with `own`: throws what stands for all.
[[noreturn]] void refuse(RollCall& call, const Verdict& own);
// Of rank 0, when it has what it needs of all. Throws RollCall::Settled when it was decided
// against.
void decide_for(RollCall& call);
// Of rank 0, before it has decided: what is wrong is another rank's fault, or nobody's.
[[noreturn]] void decide_against(RollCall& call, const Verdict& verdict);

// Calls body(call), which on rank 0 calls decide_for() or decide_against(), and on the others
// call.wait_for_decision().
// Its result is this rank's. `doing` names what the body does. Throws as throw_verdict(), and
// RankFailure.
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
    throw_unheard(call, unknown.rank, "was not heard of any more");
  } catch (const MeetingError& e) {
    throw_unheard(call, 0, e.what());
  } catch (const std::exception&) {
    refuse(call, verdict_of_current(call.me().rank, doing));
  }
}

}  // namespace cairn
