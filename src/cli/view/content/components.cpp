#include "cli/view/content/components.h"

namespace cairn::cli {

std::vector<Component> components_of(const TreeNode& root) {
  std::vector<Component> components;
  Component bare{.path = "(tensors)"};
  const auto add = [&](const TreeNode& node, const std::string& prefix) {
    const bool is_container =
        node.value->is_dict() || node.value->is_list() || node.value->is_tuple();
    if (!is_container) {
      if (node.contents.tensors > 0) bare.contents += node.contents;
    } else if (node.contents.tensors + node.contents.values > 0) {
      components.push_back({prefix + node.key, node.contents});
    }
  };
  for (const TreeNode& node : root.children) {
    if (node.key == "state" && node.value->is_dict()) {
      for (const TreeNode& part : node.children) {
        add(part, "state/");
      }
    } else {
      add(node, "");
    }
  }
  if (bare.contents.tensors > 0) components.push_back(std::move(bare));
  return components;
}

}  // namespace cairn::cli
