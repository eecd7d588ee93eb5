// Clean-up after work that failed or was done.
#pragma once

#include <new>

#include "cairn/error.h"

namespace cairn {

// Calls `act`, once more where there is no memory for it: what failed on the way has given its
// memory back. `act` goes on where it failed.
template <class Act>
void persist(const Act& act) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
  }
  act();
}

// The same, quietly: what an Error or a lack of memory leaves is a leftover, which
// remove_leftovers() knows.
template <class Act>
void clean_up(const Act& act) {
  try {
    persist(act);
  } catch (const Error&) {
    return;
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace cairn
