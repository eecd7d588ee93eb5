// Trees as a store.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

#include "storage/trackers/tree/tree.h"

namespace cairn {

// Where a name of the store is.
struct TreePlace {
  std::shared_ptr<Tree> tree;
  std::string root;  // what names of that tree begin with, with the slash; may differ from how the
                     // name was given, where that was filled in
  std::string path;

  std::string name() const { return root + path; }
};
// UsageError for names that cannot be.
using TreeRouter = std::function<TreePlace(const std::string& name)>;

// Messages say `root` and then the name as it was given: they ask nobody, and make no run.
//
// Its pointers are objects NAME.symlink, whose text is a name. Conditions hold against what was
// done before, but that a name is absent holds as Tree::put() makes it.
std::shared_ptr<ObjectStore> tree_store(TreeRouter router, std::string root);

}  // namespace cairn
