// A store whose names are whole URIs, over one whose names are what stands behind the root.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

struct UriNames {
  std::string before = {};  // stands in front of each name below: "/" makes absolute paths
  // A place that messages say, and the name it stands for: shown_place().
  std::string shown = {};
  std::string meant = {};
};

// `root` as Uri::root() gives it. Names of another root are a UsageError.
std::shared_ptr<ObjectStore> uri_store(std::string root, std::shared_ptr<ObjectStore> under,
                                       UriNames names = {});

}  // namespace cairn
