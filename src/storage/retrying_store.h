// Repeats reads for a store whose network fails now and then, and that does not retry itself.
#pragma once

#include <memory>

#include "cairn/storage/object_store.h"

#include "io/threads/retry.h"

namespace cairn {

// Wraps `under`. Every call that changes nothing, and every read of an opened object, is repeated
// after a retryable() StorageError; after the last attempt the error is thrown. Calls that change
// something are passed on once: the writer knows whether they may be repeated (publish.h).
std::shared_ptr<ObjectStore> retrying_store(std::shared_ptr<ObjectStore> under, RetryPolicy retry);

}  // namespace cairn
