// The fields of a Timestamp, with their names in its state_dict, in manifests, names of files and
// --json. This is the only list, in Composer's order.
#pragma once

#include <array>
#include <string_view>

#include "cairn/time.h"

namespace cairn {

struct TimestampCounter {
  const char* name;
  std::int64_t Timestamp::*field;
  bool is_old = true;  // every version of Composer writes it

  // Returns whether the counter restarts with each epoch.
  constexpr bool is_in_epoch() const { return std::string_view(name).ends_with("_in_epoch"); }
};
struct TimestampClock {
  const char* name;
  TimeDelta Timestamp::*field;
};

inline constexpr std::array kTimestampCounters = {
    TimestampCounter{"iteration", &Timestamp::iteration, false},
    TimestampCounter{"epoch", &Timestamp::epoch},
    TimestampCounter{"batch", &Timestamp::batch},
    TimestampCounter{"sample", &Timestamp::sample},
    TimestampCounter{"token", &Timestamp::token},
    TimestampCounter{"epoch_in_iteration", &Timestamp::epoch_in_iteration, false},
    TimestampCounter{"token_in_iteration", &Timestamp::token_in_iteration, false},
    TimestampCounter{"batch_in_epoch", &Timestamp::batch_in_epoch},
    TimestampCounter{"sample_in_epoch", &Timestamp::sample_in_epoch},
    TimestampCounter{"token_in_epoch", &Timestamp::token_in_epoch},
};
inline constexpr std::array kTimestampClocks = {
    TimestampClock{"total_wct", &Timestamp::total_wct},
    TimestampClock{"iteration_wct", &Timestamp::iteration_wct},
    TimestampClock{"epoch_wct", &Timestamp::epoch_wct},
    TimestampClock{"batch_wct", &Timestamp::batch_wct},
};
static_assert(sizeof(Timestamp) == kTimestampCounters.size() * sizeof(std::int64_t) +
                                       kTimestampClocks.size() * sizeof(TimeDelta),
              "a field of Timestamp is not in these tables");

// Returns the row of a field, for lists in another order.
constexpr const TimestampCounter& timestamp_counter(std::int64_t Timestamp::*field) {
  std::size_t i = 0;
  while (kTimestampCounters[i].field != field) {
    ++i;
  }
  return kTimestampCounters[i];
}

}  // namespace cairn
