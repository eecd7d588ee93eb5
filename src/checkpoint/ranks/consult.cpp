#include "checkpoint/ranks/consult.h"

#include <fmt/format.h>

namespace cairn {

void throw_rank_failure(const RollCall& call, std::int64_t rank, const std::string& why) {
  throw RankFailure(fmt::format("{}: rank {}: {}", call.what(), rank, why), rank, 0,
                    /*retryable=*/true);
}

void refuse(RollCall& call, const Verdict& own) {
  Verdict stands = own;
  try {
    stands = call.settle(own);
  } catch (const MeetingError& e) {
    // Without this rank, rank 0 cannot decide for the call.
    stands.why += fmt::format(" (and the others could not be told: {})", e.what());
  }
  call.end();
  throw_verdict(stands.is_good() ? own : stands, call.what());
}

void decide_for(RollCall& call) {
  const Verdict stands = call.settle({});
  if (!stands.is_good()) throw RollCall::Settled{stands};
}

void decide_against(RollCall& call, const Verdict& verdict) {
  throw RollCall::Settled{call.settle(verdict)};
}

}  // namespace cairn
