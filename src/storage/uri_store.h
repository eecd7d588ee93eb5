// A store whose names are whole URIs, over one whose names are what stands behind the root.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// `root` as Uri::root() gives it. Names of another root are a UsageError. With `before`, that
// stands in front of each name below: "/" makes absolute paths.
std::shared_ptr<ObjectStore> uri_store(std::string root, std::shared_ptr<ObjectStore> under,
                                       std::string before = {});

}  // namespace cairn
