// Functions by which real_store_test.cpp reaches its server. A test program links
// real_store_test.cpp with one other file, which defines these functions.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// The store of the environment's server, empty when the program starts.
const std::shared_ptr<ObjectStore>& real_store();
// Another store with the same objects, as another process would have it.
std::shared_ptr<ObjectStore> another_real_store();
// The place of that store: "s3://bucket".
std::string real_place();

}  // namespace cairn
