// The state that two runs must agree on to be the same run.
#pragma once

#include "cairn/time.h"
#include "cairn/value.h"

namespace cairn::testing {

// Everything in a Trainer's checkpoint that decides how the run continues: all of it except clocks
// and file names.
inline Value resumable_state(const Value& checkpoint) {
  const Value& state = checkpoint.at("state");
  Dict kept;
  for (const char* key : {"model", "optimizers", "schedulers", "algorithms", "scaler",
                          "rank_zero_seed", "run_name", "dataset_state"}) {
    kept[key] = state.at(key);
  }
  Timestamp timestamp = Timestamp::from_value(*find_path(state, "timestamp/Timestamp"));
  timestamp.total_wct = timestamp.iteration_wct = timestamp.epoch_wct = timestamp.batch_wct = {};
  kept["timestamp"] = timestamp.state_dict();
  kept["rng"] = checkpoint.at("rng");
  return kept;
}

}  // namespace cairn::testing
