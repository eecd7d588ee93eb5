// A store over Trees.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

#include "storage/trackers/tree/tree.h"

namespace cairn {

// The place of a store's name.
struct TreePlace {
  std::shared_ptr<Tree> tree;
  // Prefix of the names in that tree, with the slash. Differs from the prefix in the given name if
  // placeholders in the given name were replaced.
  std::string root;
  std::string path;

  std::string name() const { return root + path; }
};
// Throws UsageError for names that are invalid.
using TreeRouter = std::function<TreePlace(const std::string& name)>;

// Messages contain `root` and then the name as it was given, so that they need no request and make
// no run.
//
// Pointers are objects NAME.symlink whose text is a name. A condition notices only the writes that
// were done before its check. The condition that a name is absent is different: Tree::put() checks
// this condition.
std::shared_ptr<ObjectStore> tree_store(TreeRouter router, std::string root);

}  // namespace cairn
