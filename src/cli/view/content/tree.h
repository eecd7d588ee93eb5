// The tree of an object, with the contents of each branch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/value.h"

#include "cli/view/console.h"

namespace cairn::cli {

// The contents of a branch. A tensor that occurs again (tied weights) counts as a tensor, but adds
// no parameters and bytes: the sums count existing data once.
struct Contents {
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;  // elements of the tensors
  std::uint64_t bytes = 0;       // of these elements
  std::uint64_t values = 0;      // leaves that are not tensors

  Contents& operator+=(const Contents& other);
};

struct TreeNode {
  std::string key = {};
  const Value* value = nullptr;  // belongs to the object, which must outlive the node
  Contents contents = {};
  std::vector<TreeNode> children = {};  // of a dict, list or tuple above the depth
  std::size_t more_children = 0;        // children that have no node: see build_tree()
};

// The branches down to `depth` levels below the root; their contents cover all levels. At most
// 200,000 nodes: lists of millions of numbers are counted, not listed.
TreeNode build_tree(const Value& root, std::size_t depth);

struct TreePrinting {
  std::size_t depth = 2;
  std::size_t most_children = 12;  // of one branch; the others are folded into one line
};
void print_tree(const TreeNode& root, const TreePrinting& printing, Console& console);

}  // namespace cairn::cli
