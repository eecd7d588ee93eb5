// From what users write to a store and a name in it: the one place that knows of URIs.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// The store in which `place` is a name: `given` when there is one, else this machine's file
// systems. UnsupportedError for a URI (io/uri.h), unless a store was given.
std::shared_ptr<ObjectStore> store_of(const std::string& place,
                                      const std::shared_ptr<ObjectStore>& given);

}  // namespace cairn
