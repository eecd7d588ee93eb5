#include "checkpoint/plan/named_tensors.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

#include "cairn/error.h"

#include "core/seeded_hash.h"
#include "value/value_path.h"

namespace cairn {
namespace {

class Flattener {
 public:
  Flattener(const std::vector<Rename>& rules, NamedTensors& found) : rules_(rules), found_(found) {}

  // `odd_key` is a key on the way that is no text; null when there is none.
  void visit(const Value& node, const std::string& path, const std::string& name,
             const Value* odd_key = nullptr) {
    const auto enter = [&](const Value& child, const std::string& key, const Value* odd) {
      visit(child, path.empty() ? key : path + "/" + key, path.empty() ? key : name + "." + key,
            odd);
    };
    if (node.is_tensor()) {
      found_.tensors.emplace_back(renamed(name, rules_), node.as_tensor());
      const std::string& written = found_.tensors.back().first;
      if (odd_key != nullptr) {
        found_.renamed_keys.emplace_back(written, "of type " + std::string(odd_key->type_name()));
      } else if (path.empty()) {
        found_.renamed_keys.emplace_back(written, "none: the tensor is the whole object");
      }
    } else if (node.kind() == Kind::kSparse) {
      throw UnsupportedError("tensor " + path + " is sparse (" +
                             std::string(cairn::name(node.as_sparse().layout)) +
                             "), and only dense tensors can be written here: leave it out, or "
                             "write a torch.save file");
    } else if (node.is_dict()) {
      for (const auto& [key, child] : node.as_dict()) {
        enter(child, key_text(key), key.is_str() ? odd_key : &key);
      }
    } else if (node.is_list() || node.is_tuple()) {
      for (std::size_t i = 0; i < node.as_items().size(); ++i) {
        enter(node.as_items()[i], std::to_string(i), odd_key);
      }
    } else {
      found_.left_out.push_back(path);
    }
  }

 private:
  const std::vector<Rename>& rules_;
  NamedTensors& found_;
};

void check_names(const std::vector<NamedTensor>& tensors) {
  std::unordered_set<std::string, TextHash> names;
  for (const auto& [name, tensor] : tensors) {
    if (names.insert(name).second) continue;
    throw UsageError("two tensors would be named " + name +
                     ": leave one out (exclude), or give it another name (rename)");
  }
}

// Leaves one of each group of tensors that are the same elements.
void drop_tied(NamedTensors& named) {
  using Place = std::tuple<const Storage*, std::int64_t, DType, Dims, Dims>;
  const auto place_of = [](const TensorView& tensor) {
    return Place(tensor.storage.get(), tensor.storage_offset, tensor.dtype, tensor.shape,
                 tensor.strides);
  };
  std::map<Place, std::string> kept;
  for (const auto& [name, tensor] : named.tensors) {
    if (tensor.numel() == 0) continue;
    const auto [first, is_new] = kept.emplace(place_of(tensor), name);
    if (!is_new) first->second = std::min(first->second, name);
  }
  std::erase_if(named.tensors, [&](const NamedTensor& tensor) {
    if (tensor.second.numel() == 0) return false;
    const std::string& keeper = kept.at(place_of(tensor.second));
    if (keeper == tensor.first) return false;
    named.tied.emplace_back(tensor.first, keeper);
    return true;
  });
}

}  // namespace

std::string renamed(const std::string& name, const std::vector<Rename>& rules) {
  for (const auto& [from, to] : rules) {
    if (name.starts_with(from)) return to + name.substr(from.size());
  }
  return name;
}

Value rename_tensors(const Value& root, const std::vector<Rename>& rules) {
  if (rules.empty()) return root;
  if (root.is_list() || root.is_tuple()) {
    List items;
    for (const Value& item : root.as_items()) {
      items.push_back(rename_tensors(item, rules));
    }
    if (root.is_tuple()) return Tuple{std::move(items)};
    return items;
  }
  if (!root.is_dict()) return root;
  Dict dict = root.as_dict().empty_like();
  for (const auto& [key, value] : root.as_dict()) {
    const bool is_name = (value.is_tensor() || value.kind() == Kind::kSparse) && key.is_str();
    const Value new_key = is_name ? Value(renamed(key.as_str(), rules)) : key;
    if (dict.find(new_key) != nullptr) {
      throw UsageError("two tensors would be named " + key_text(new_key));
    }
    dict.set(new_key, rename_tensors(value, rules));
  }
  return dict;
}

NamedTensors name_tensors(const Value& root, const std::vector<Rename>& rules) {
  NamedTensors named;
  Flattener(rules, named).visit(root, "", "");
  check_names(named.tensors);
  drop_tied(named);
  return named;
}

Value with_tied(const Value& tensors,
                const std::vector<std::pair<std::string, std::string>>& tied) {
  Value result = tensors;
  for (const auto& [name, keeper] : tied) {
    const Value* kept = tensors.find(keeper);
    if (kept == nullptr || tensors.find(name) != nullptr) continue;
    const Value shared = *kept;
    result.mutable_dict().set(name, shared);
  }
  return result;
}

}  // namespace cairn
