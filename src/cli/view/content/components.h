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

// The parts of Composer's state and what stands beside it; the top-level keys of anything else.
// Tensors that stand among them by themselves are one component together, "(tensors)". The tree has
// at least two levels.
std::vector<Component> components_of(const TreeNode& root);

}  // namespace cairn::cli
