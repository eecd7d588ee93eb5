// The findings of a dry run of restore_rng_states().
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

struct RngCheck {
  std::vector<std::string> misfits;   // Malformed entries: restore_rng_states() would throw.
  std::vector<std::string> warnings;  // Entries that restore_rng_states() would leave alone.
};

// `states` is the "rng" list of a checkpoint. `is_of_own_rank`: it has only the states of this
// rank, as a rank's tar does.
RngCheck check_rng_states(const Value& states, bool is_of_own_rank = false);

}  // namespace cairn
