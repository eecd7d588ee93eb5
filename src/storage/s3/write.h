// An object of a bucket that is being written.
#pragma once

#include <memory>

#include "cairn/storage/object_store.h"

#include "storage/s3/bucket.h"

namespace cairn::s3 {

std::unique_ptr<ObjectWrite> write_object(std::shared_ptr<Bucket> bucket, std::string key,
                                          const BeginOptions& options);

}  // namespace cairn::s3
