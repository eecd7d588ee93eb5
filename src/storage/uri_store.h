// A store whose names are whole URIs, over a store whose names are the parts after the root.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

struct UriNames {
  std::string before = {};  // prefix of each name in the store below: "/" makes absolute paths
  // A place as messages show it (shown_place()), and the name that it stands for.
  std::string shown = {};
  std::string meant = {};
};

// `root` comes from Uri::root(). Throws UsageError for names of another root.
std::shared_ptr<ObjectStore> uri_store(std::string root, std::shared_ptr<ObjectStore> under,
                                       UriNames names = {});

}  // namespace cairn
