// The parts of a checkpoint: model, optimizers, schedulers, rng, ...
#pragma once

#include <string>
#include <vector>

#include "cli/view/content/tree.h"

namespace cairn::cli {

struct Component {
  std::string path;
  Contents contents = {};
};

// The parts of Composer's state and the keys beside it; for any other object, its top-level keys.
// Single tensors directly at these places form one component together, "(tensors)". The tree must
// have at least two levels.
std::vector<Component> components_of(const TreeNode& root);

}  // namespace cairn::cli
