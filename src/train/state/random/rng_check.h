// What restore_rng_states() would do with a list, found out beforehand.
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

struct RngCheck {
  std::vector<std::string> misfits;   // malformed entries: restore_rng_states() would throw
  std::vector<std::string> warnings;  // what it would leave alone
};

// `states` is the "rng" list of a checkpoint. `is_of_own_rank`: it has the states of this rank
// alone, as a rank's tar does.
RngCheck check_rng_states(const Value& states, bool is_of_own_rank = false);

}  // namespace cairn
