// Functions through which real_store_test.cpp reaches the server that it runs against. A program of
// tests links that file with one other file that defines these.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// The store of the environment's server, empty when the program starts.
const std::shared_ptr<ObjectStore>& real_store();
// Another store of the same objects, as another process has it.
std::shared_ptr<ObjectStore> another_real_store();
// The place of that store: "s3://bucket".
std::string real_place();

}  // namespace cairn
