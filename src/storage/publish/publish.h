// Making an object appear in a store that is far away, and knowing that it did.
//
// clang-format off
//  1. The store begins the object under the condition; `fill` writes it; commit() makes it durable
//     and visible at once. What was abandoned or failed before that has no name.
//  2. The store is asked for the name, unless the write itself tells what the store has: it must be
//     exactly as many bytes as were sent. Nothing may point at the object, and no local copy of it
//     may go, before that. Where it has another size, an object that is the beginning of ours is
//     replaced; anything else only as the condition allows: it is another writer's.
//  3. An error that may pass is no result: 1 and 2 again, a bounded number of times.
//  4. The answer to a commit may be lost although the object is there. So "it exists already",
//     behind an attempt of our own that failed, is looked into: what has the name is compared with
//     what `fill` writes, byte for byte. The same bytes are ours; others are somebody else's, and
//     the AlreadyExistsError stays. A store that checks no versions is looked into by the same
//     comparison before each such attempt.
//  5. What only this job may replace (own_objects.h) is asked for its condition first, and told
//     what became of the write: also the hash of what was sent when it failed, or when another
//     write's object is there at once.
// clang-format on
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cairn/storage/object_store.h"

#include "io/threads/retry.h"
#include "storage/publish/replace.h"

namespace cairn {

class OwnObjects;

struct ObjectToPublish {
  std::string name;
  Replace replace = Replace::kAll;
  std::uint64_t expected_bytes = 0;  // a hint
  bool is_private = false;           // as BeginOptions
  // Writes all of the object, and the same bytes each time that it is called.
  std::function<void(ObjectWrite&)> fill;
  bool may_be_there = false;  // an attempt before this call failed: step 4 from the first one on
  // Is told the result of the write, and says what Replace::kOwn may replace. Null: not with kOwn.
  OwnObjects* own = nullptr;
};

// Returns the number of bytes. AlreadyExistsError when the condition does not hold; StorageError;
// what `fill` throws. After a CancelledError `own` knows that a write may have been done, if one
// may, and not of which bytes: there is no time to look at what was sent.
std::uint64_t write_until_seen(ObjectStore& store, const ObjectToPublish& object,
                               const RetryPolicy& retry);

// Makes sure, before hours of training depend on it, that objects can be written into `folder`:
// writes ".credentials_validated_successfully-<random>" there (Composer's name for it, and what
// keeps jobs apart that start at once) and removes it again, where that is allowed. What the store
// throws, with what to do.
void check_write_access(ObjectStore& store, const std::string& folder, const RetryPolicy& retry);

}  // namespace cairn
