// Whether a write may replace the object that has its name. The code above the stores uses only
// this type. Stores use WriteCondition; only condition_of() translates between the two.
#pragma once

#include <cstdint>

#include "cairn/storage/object_store.h"

namespace cairn {

enum class Replace : std::uint8_t {
  kNever,  // the name must be free: AlreadyExistsError otherwise
  // The object must be provably this run's: the run wrote it, or found it when it began
  // (own_objects.h). publish() checks that in stores that are far away. In a local store kOwn means
  // kAll: conflicts in a local store are checked when training begins.
  kOwn,
  kAll,
};

inline Replace replace_if(bool overwrite) { return overwrite ? Replace::kAll : Replace::kNever; }

inline WriteCondition condition_of(Replace replace) {
  return replace == Replace::kNever ? WriteCondition::absent() : WriteCondition{};
}

}  // namespace cairn
