// Whether a write may replace what has its name: the one word for it above the stores. A store's
// own word is WriteCondition, and condition_of() the only translation.
#pragma once

#include <cstdint>

#include "cairn/storage/object_store.h"

namespace cairn {

enum class Replace : std::uint8_t {
  kNever,  // nothing may have the name: AlreadyExistsError
  // Only what is provably this run's: it wrote it, or found it when it began (own_objects.h).
  // publish() checks that, in stores that are far away. In a local store this is kAll: there the
  // conflicts are checked when training begins.
  kOwn,
  kAll,
};

inline Replace replace_if(bool overwrite) { return overwrite ? Replace::kAll : Replace::kNever; }

inline WriteCondition condition_of(Replace replace) {
  return replace == Replace::kNever ? WriteCondition::absent() : WriteCondition{};
}

}  // namespace cairn
