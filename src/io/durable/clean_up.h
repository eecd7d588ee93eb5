// Clean-up after work, whether it failed or succeeded.
#pragma once

#include <new>

#include "cairn/error.h"

namespace cairn {

// Calls `act`, and calls it once more if there was too little memory for the first call: the failed
// call has given its memory back. The second call must continue where the first failed.
template <class Act>
void retry_after_bad_alloc(const Act& act) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
  }
  act();
}

// As retry_after_bad_alloc(), but ignores an Error and a lack of memory. Files that remain are
// leftovers, which remove_leftovers() recognises.
template <class Act>
void clean_up(const Act& act) {
  try {
    retry_after_bad_alloc(act);
  } catch (const Error&) {
    return;
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace cairn
