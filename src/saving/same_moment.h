// Whether two saves have the same weights.
#pragma once

#include "cairn/time.h"

namespace cairn {

// Whether no batch was trained between the two: the end of an epoch trains nothing. total_wct
// differs if time was set back and the same batch was trained again.
inline bool is_same_moment(const Timestamp& one, const Timestamp& other) {
  return one.batch == other.batch && one.sample == other.sample && one.token == other.token &&
         one.total_wct == other.total_wct;
}

}  // namespace cairn
