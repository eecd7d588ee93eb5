// Keys of parameter groups that several optimizers have, in the same order.
#pragma once

#include "cairn/train/optimizer_layout.h"

namespace cairn {

// Keys that PyTorch has added to the groups of Adamax, ASGD and Rprop since 1.11.
inline void describe_newer_keys(GroupFields& group, bool& maximize) {
  group.python_only("foreach", None{});
  group.newer_flag("maximize", maximize);
  group.python_only("differentiable", false);
  group.python_only("capturable", false);
}

}  // namespace cairn
