#include "base/value_path.h"

#include <algorithm>
#include <charconv>

#include "cairn/foreign.h"

#include "base/float_text.h"

namespace cairn {
namespace {

const Value* child(const Value& parent, std::string_view name) {
  if (parent.is_dict()) {
    for (const auto& [key, value] : parent.as_dict()) {
      if (!key.is_str() && key_text(key) == name) return &value;
    }
    return parent.find(name);
  }
  if (!parent.is_list() && !parent.is_tuple()) return nullptr;
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const List& items = parent.as_items();
  if (error != std::errc() || end != name.data() + name.size() || index >= items.size()) {
    return nullptr;
  }
  return &items[index];
}

}  // namespace

std::string key_text(const Value& key) {
  switch (key.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return key.as_bool() ? "True" : "False";
    case Kind::kInt:
      return std::to_string(key.as_int());
    case Kind::kBigInt:
      return key.get_if<BigInt>()->decimal();
    case Kind::kFloat:
      return python_float_repr(key.as_float());
    case Kind::kStr:
      return key.as_str();
    case Kind::kNumpyScalar:
      return key_text(key.get_if<NumpyScalar>()->number());
    case Kind::kForeign:
      return key.as_foreign().class_name();
    default:
      return std::string(key.type_name());
  }
}

const Value* find_path(const Value& root, std::string_view path) {
  const Value* here = &root;
  while (!path.empty() && here != nullptr) {
    const std::size_t slash = path.find('/');
    here = child(*here, path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return here;
}

std::vector<std::pair<std::string, const TensorView*>> tensors_of(const Value& root) {
  std::vector<std::pair<std::string, const TensorView*>> found;
  std::vector<std::pair<std::string, const Value*>> stack = {{"", &root}};
  while (!stack.empty()) {
    const auto [path, value] = stack.back();
    stack.pop_back();
    const std::string prefix = path.empty() ? "" : path + "/";
    if (value->is_tensor()) {
      found.emplace_back(path, &value->as_tensor());
    } else if (value->kind() == Kind::kSparse) {
      for (const auto& [part, tensor] : parts_of(value->as_sparse())) {
        found.emplace_back(prefix + std::string(part), tensor);
      }
    } else if (value->is_dict()) {
      const Dict& dict = value->as_dict();
      const std::size_t first = stack.size();
      for (const auto& [key, child] : dict) {
        stack.emplace_back(prefix + key_text(key), &child);
      }
      std::reverse(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
    } else if (value->is_list() || value->is_tuple()) {
      const List& items = value->as_items();
      for (std::size_t i = items.size(); i-- > 0;) {
        stack.emplace_back(prefix + std::to_string(i), &items[i]);
      }
    }
  }
  return found;
}

}  // namespace cairn
