#include "cli/view/content/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "cli/view/content/value_text.h"
#include "core/text/printable.h"
#include "value/value_path.h"

namespace cairn::cli {
namespace {

// The functions below may be recursive, because Value trees are at most a thousand levels deep,
// whatever file they come from.
class TreeBuilder {
 public:
  TreeNode build(std::string key, const Value& value, std::size_t depth) {
    TreeNode node{.key = std::move(key), .value = &value};
    const auto add = [&](std::string child_key, const Value& child_value) {
      TreeNode child = build(std::move(child_key), child_value, depth > 0 ? depth - 1 : 0);
      node.contents += child.contents;
      if (depth == 0) return;
      if (nodes_left_ > 0) {
        --nodes_left_;
        node.children.push_back(std::move(child));
      } else {
        ++node.more_children;
      }
    };
    if (value.is_dict()) {
      for (const auto& [child_key, child_value] : value.as_dict()) {
        add(depth > 0 && nodes_left_ > 0 ? key_text(child_key) : "", child_value);
      }
    } else if (value.is_list() || value.is_tuple()) {
      std::size_t i = 0;
      for (const Value& item : value.as_items()) {
        add(depth > 0 && nodes_left_ > 0 ? std::to_string(i++) : "", item);
      }
    } else {
      node.contents = leaf(value);
    }
    return node;
  }

 private:
  Contents leaf(const Value& value) {
    const auto parts = tensors_of(value);  // a sparse tensor has several
    if (parts.empty()) return {.values = 1};
    Contents contents{.tensors = 1};
    for (const auto& [path, tensor] : parts) {
      if (!seen_.emplace(tensor->storage.get(), tensor->storage_offset, tensor->shape).second) {
        continue;
      }
      contents.parameters += static_cast<std::uint64_t>(tensor->numel());
      contents.bytes += byte_size(*tensor);
    }
    return contents;
  }

  std::size_t nodes_left_ = 200'000;
  std::set<std::tuple<const Storage*, std::int64_t, Dims>> seen_;
};

std::string contents_text(const Contents& contents, const Console& console) {
  if (contents.tensors == 0) return {};
  return fmt::format("{} tensor{}, {}", contents.tensors, contents.tensors == 1 ? "" : "s",
                     console.bytes(contents.bytes));
}

class TreePrinter {
 public:
  TreePrinter(const TreePrinting& printing, Console& console)
      : printing_(printing), console_(console) {}

  void print_children(const TreeNode& node, std::size_t level) {
    if (level >= printing_.depth) return;
    std::size_t shown = std::min(node.children.size(), printing_.most_children);
    if (node.children.size() == shown + 1 && node.more_children == 0)
      ++shown;  // a line that says "1 more" saves nothing
    std::size_t width = 0;
    for (std::size_t i = 0; i < shown; ++i) {
      width = std::max(width, printable_line(node.children[i].key).size());
    }
    const std::string indent(2 * level, ' ');
    for (std::size_t i = 0; i < shown; ++i) {
      const TreeNode& child = node.children[i];
      console_.out << fmt::format("{}{:<{}}  ", indent, printable_line(child.key), width)
                   << console_.dim(summary(child)) << "\n";
      print_children(child, level + 1);
    }
    if (shown < node.children.size() + node.more_children) print_folded(node, shown, indent);
  }

 private:
  std::string summary(const TreeNode& node) const {
    std::string text = printable_line(value_text(*node.value));
    if (node.value->is_tensor()) return text + "  " + console_.bytes(node.contents.bytes);
    const std::string contents = contents_text(node.contents, console_);
    return contents.empty() ? text : text + ", " + contents;
  }

  void print_folded(const TreeNode& node, std::size_t shown, const std::string& indent) {
    std::uint64_t tensors = node.contents.tensors;
    std::uint64_t bytes = node.contents.bytes;
    for (std::size_t i = 0; i < shown; ++i) {
      tensors -= node.children[i].contents.tensors;
      bytes -= node.children[i].contents.bytes;
    }
    const Contents contents{.tensors = tensors, .bytes = bytes};
    const std::string text = contents_text(contents, console_);
    console_.out << indent
                 << console_.dim(fmt::format("... {} more{}",
                                             node.children.size() + node.more_children - shown,
                                             text.empty() ? "" : ", " + text))
                 << "\n";
  }

  const TreePrinting& printing_;
  Console& console_;
};

}  // namespace

Contents& Contents::operator+=(const Contents& other) {
  tensors += other.tensors;
  parameters += other.parameters;
  bytes += other.bytes;
  values += other.values;
  return *this;
}

TreeNode build_tree(const Value& root, std::size_t depth) {
  return TreeBuilder().build("", root, depth);
}

void print_tree(const TreeNode& root, const TreePrinting& printing, Console& console) {
  TreePrinter(printing, console).print_children(root, 0);
}

}  // namespace cairn::cli
