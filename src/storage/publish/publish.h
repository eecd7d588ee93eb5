// Publishes an object in a store that is far away, and checks that the object is there.
//
// clang-format off
//  1. The store begins the object under the condition; `fill` writes it; commit() makes it durable
//     and visible at once. If the write is abandoned or fails before commit(), no object has the
//     name.
//  2. The store is asked about the name, unless the write itself reports what the store has. The
//     size must be exactly what was sent. Before this check, nothing may point at the object, and
//     no local copy of it may be removed. If the size differs, and the object is the beginning of
//     our object, it is replaced. Any other object is another writer's, and is replaced only as the
//     condition allows.
//  3. After an error that may be temporary, steps 1 and 2 are done again, a bounded number of
//     times.
//  4. The answer to a commit may be lost although the object exists. So if an attempt of ours
//     failed, and the next attempt finds that the object exists, the object is compared byte for
//     byte with what `fill` writes. If the bytes are the same, the object is ours. Otherwise it is
//     another writer's, and the AlreadyExistsError stays. In a store that checks no versions, the
//     same comparison is made before each attempt that follows a failed one.
//  5. For an object that only this job may replace, OwnObjects supplies the condition
//     (own_objects.h), and learns the outcome of the write. If the write failed, or another write's
//     object is found right after it, OwnObjects also gets the hash of the bytes sent.
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
  bool is_private = false;           // as in BeginOptions
  // Writes the whole object, with the same bytes each time that it is called.
  std::function<void(ObjectWrite&)> fill;
  // True if an earlier attempt failed: step 4 then applies from the first attempt on.
  bool may_be_there = false;
  // Supplies the condition for Replace::kOwn, and learns the outcome of the write. May be null, but
  // not with kOwn.
  OwnObjects* own = nullptr;
};

// Returns the number of bytes. Throws AlreadyExistsError if the condition does not hold,
// StorageError, and what `fill` throws. After a CancelledError `own` knows whether a write may have
// been done, but not its bytes: there is no time to hash them.
std::uint64_t write_until_seen(ObjectStore& store, const ObjectToPublish& object,
                               const RetryPolicy& retry);

// Checks, before hours of training depend on it, that objects can be written into `folder`. Writes
// ".credentials_validated_successfully-<random>" into it, and removes that object again, if
// removing is allowed.
// The name is Composer's; the random part keeps apart jobs that start at once. Throws the store's
// error, with advice.
void check_write_access(ObjectStore& store, const std::string& folder, const RetryPolicy& retry);

}  // namespace cairn
