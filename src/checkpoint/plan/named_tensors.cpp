#include "checkpoint/plan/named_tensors.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "cairn/dtensor.h"
#include "cairn/error.h"

#include "core/hash/seeded_hash.h"
#include "value/value_path.h"

namespace cairn {
namespace {

// Applies the rules, and remembers which of them have fitted a name. A rule that fits a name counts
// even if an earlier rule was applied to that name.
class RenameRules {
 public:
  explicit RenameRules(const std::vector<Rename>& rules) : rules_(rules), fits_(rules.size()) {}

  std::string renamed(const std::string& name) {
    const Rename* first = nullptr;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (!name.starts_with(rules_[i].from)) continue;
      fits_[i] = true;
      if (first == nullptr) first = &rules_[i];
    }
    return first == nullptr ? name : first->to + name.substr(first->from.size());
  }

  void check_all_fit() const {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (fits_[i]) continue;
      throw UsageError("--rename " + rules_[i].from + "=" + rules_[i].to +
                       " (ConvertOptions::rename): no tensor's name begins with '" +
                       rules_[i].from +
                       "'; `cairn inspect` shows the names that there are (in torch.save a name "
                       "is the last key)");
    }
  }

 private:
  const std::vector<Rename>& rules_;
  std::vector<bool> fits_;  // for each rule
};

// Renames a tree. The new names depend only on a dict's keys, so a container at several places is
// renamed once.
class Renamer {
 public:
  explicit Renamer(RenameRules& rules) : rules_(rules) {}

  Value with_names(const Value& value) {
    const bool is_entered = value.is_dict() || value.is_list() || value.is_tuple();
    if (!is_entered || value.identity() == nullptr) return value;
    if (!value.may_be_shared()) return renamed_new(value);
    const auto known = done_.find(value.identity());
    if (known != done_.end()) return known->second;
    return done_.emplace(value.identity(), renamed_new(value)).first->second;
  }

 private:
  // A part that does not change stays the same object.
  Value renamed_new(const Value& value) {
    if (value.is_dict()) return renamed_dict(value);
    List items;
    bool is_same = true;
    for (const Value& item : value.as_items()) {
      items.push_back(with_names(item));
      is_same = is_same && items.back().identity() == item.identity();
    }
    if (is_same) return value;
    if (value.is_tuple()) return Tuple{std::move(items)};
    return items;
  }

  Value renamed_dict(const Value& from) {
    Dict dict = from.as_dict().empty_like();
    bool is_same = true;
    for (const auto& [key, value] : from.as_dict()) {
      const bool is_tensor =
          value.is_tensor() || value.kind() == Kind::kSparse || local_tensor(value) != nullptr;
      const bool is_name = is_tensor && key.is_str();
      const Value new_key = is_name ? Value(rules_.renamed(key.as_str())) : key;
      if (dict.find(new_key) != nullptr) {
        throw UsageError("two tensors would be named " + key_text(new_key));
      }
      Value part = with_names(value);
      is_same = is_same && new_key == key && part.identity() == value.identity();
      dict.set(new_key, std::move(part));
    }
    return is_same ? from : Value(std::move(dict));
  }

  RenameRules& rules_;
  std::unordered_map<const void*, Value> done_;  // by the identity of the original value
};

class Flattener {
 public:
  Flattener(RenameRules& rules, NamedTensors& found) : rules_(rules), found_(found) {}

  void visit_root(const Value& root) { visit(root, {}); }

 private:
  struct Way {
    std::string path = {};
    std::string name = {};
    const Value* odd_key = nullptr;  // a key on the path that is not a text; null if there is none
    bool is_known = false;           // this value was already listed under another path
  };

  static Way below(const Way& way, const std::string& key, const Value* odd_key) {
    const bool is_first = way.path.empty();
    return {is_first ? key : way.path + "/" + key, is_first ? key : way.name + "." + key, odd_key,
            way.is_known};
  }

  // Returns whether there are tensors in `node`.
  bool visit(const Value& node, Way way) {
    if (node.is_tensor()) {
      add(node.as_tensor(), way);
      return true;
    }
    if (node.kind() == Kind::kSparse) {
      throw UnsupportedError("tensor " + way.path + " is sparse (" +
                             std::string(cairn::name(node.as_sparse().layout)) +
                             "), and only dense tensors can be written here: leave it out, or "
                             "write a torch.save file");
    }
    if (!node.is_dict() && !node.is_list() && !node.is_tuple()) {
      if (!way.is_known) found_.left_out.push_back(way.path);
      return false;
    }
    if (node.identity() == nullptr || !node.may_be_shared()) return visit_parts(node, way);
    const auto seen = has_tensors_.find(node.identity());
    if (seen != has_tensors_.end() && !seen->second) return false;
    way.is_known = way.is_known || seen != has_tensors_.end();
    const bool has_tensors = visit_parts(node, way);
    has_tensors_.emplace(node.identity(), has_tensors);
    return has_tensors;
  }

  bool visit_parts(const Value& node, const Way& way) {
    bool has_tensors = false;
    if (node.is_dict()) {
      for (const auto& [key, child] : node.as_dict()) {
        const Value* odd_key = key.is_str() ? way.odd_key : &key;
        if (!has_unique_text(key) && !way.is_known) {
          found_.left_out.push_back(below(way, key_text(key) + " (key)", odd_key).path);
        }
        has_tensors = visit(child, below(way, key_text(key), odd_key)) || has_tensors;
      }
      return has_tensors;
    }
    std::size_t i = 0;
    for (const Value& child : node.as_items()) {
      has_tensors = visit(child, below(way, std::to_string(i++), way.odd_key)) || has_tensors;
    }
    return has_tensors;
  }

  void add(const TensorView& tensor, const Way& way) {
    found_.tensors.emplace_back(rules_.renamed(way.name), tensor);
    const std::string& written = found_.tensors.back().first;
    if (way.odd_key != nullptr) {
      found_.renamed_keys.emplace_back(written, "of type " + std::string(way.odd_key->type_name()));
    } else if (way.path.empty()) {
      found_.renamed_keys.emplace_back(written, "none: the tensor is the whole object");
    }
  }

  RenameRules& rules_;
  NamedTensors& found_;
  std::unordered_map<const void*, bool> has_tensors_;  // for values that may be at several places
};

void check_names(const std::vector<NamedTensor>& tensors) {
  std::unordered_set<std::string, TextHash> names;
  for (const auto& [name, tensor] : tensors) {
    if (names.insert(name).second) continue;
    throw UsageError("two tensors would be named " + name +
                     ": leave one out (exclude), or give it another name (rename)");
  }
}

// Keeps one tensor of each group of tensors with the same elements.
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

Value rename_tensors(const Value& root, const std::vector<Rename>& rules) {
  if (rules.empty()) return root;
  RenameRules renames(rules);
  Value result = Renamer(renames).with_names(root);
  renames.check_all_fit();
  return result;
}

NamedTensors name_tensors(const Value& root, const std::vector<Rename>& rules) {
  NamedTensors named;
  RenameRules renames(rules);
  Flattener(renames, named).visit_root(root);
  renames.check_all_fit();
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
