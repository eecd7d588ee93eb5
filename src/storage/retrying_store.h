// Reading from a store whose network fails now and then, and that does not try again by itself.
#pragma once

#include <memory>

#include "cairn/storage/object_store.h"

#include "io/threads/retry.h"

namespace cairn {

// The store with every question, and every read of what was opened, asked again behind a
// StorageError that is retryable(): by the policy, and then the error is thrown. What changes
// something is passed on as it is: whoever writes knows whether it may be done twice (publish.h).
std::shared_ptr<ObjectStore> retrying_store(std::shared_ptr<ObjectStore> under, RetryPolicy retry);

}  // namespace cairn
