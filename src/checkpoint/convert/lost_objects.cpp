#include "checkpoint/convert/lost_objects.h"

#include <unordered_map>

#include "cairn/dtensor.h"
#include "cairn/foreign.h"

#include "value/children.h"
#include "value/value_path.h"

namespace cairn {
namespace {

// Calls use(storage) for each storage of `value` if it is a tensor. Enters no container or object.
void for_each_storage(const Value& value, auto&& use) {
  if (value.is_tensor()) {
    const TensorView& tensor = value.as_tensor();
    if (tensor.storage) use(tensor.storage.get());
    if (tensor.quantizer == nullptr) return;
    for (const TensorView* part : {&tensor.quantizer->scales, &tensor.quantizer->zero_points}) {
      if (part->storage) use(part->storage.get());
    }
  } else if (value.kind() == Kind::kSparse) {
    for (const auto& [name, part] : parts_of(value.as_sparse())) {
      if (part->storage) use(part->storage.get());
    }
  }
}

// Value trees are at most a thousand levels deep, whatever file they come from, so the functions
// below may call themselves.
class LostFinder {
 public:
  explicit LostFinder(const Storages& kept) : kept_(kept) {}

  // Whether `value` holds, at any depth, a storage that is not kept.
  bool holds_lost(const Value& value) {
    if (value.identity() == nullptr) return false;  // a number, a text, or empty
    const auto known = holds_lost_.find(value.identity());
    if (known != holds_lost_.end()) return known->second;
    bool is_lost = false;
    for_each_storage(
        value, [&](const Storage* storage) { is_lost = is_lost || !kept_.contains(storage); });
    for_each_child(value, [&](const Value& part) { is_lost = is_lost || holds_lost(part); });
    holds_lost_.emplace(value.identity(), is_lost);
    return is_lost;
  }

  void visit(const Value& value, const std::string& path) {
    if (!holds_lost(value)) return;
    if (!visited_.insert(value.identity()).second) return;
    const std::string prefix = path.empty() ? "" : path + "/";
    if (value.is_dict()) {
      const Dict& dict = value.as_dict();
      for (const auto& [key, item] : dict) {
        const std::string here = prefix + key_text(key);
        if (!has_unique_text(key)) add(key, here + " (key)");
        visit(item, here);
      }
      add(dict.attributes(), prefix + "__dict__");
      add(dict.default_factory(), prefix + "default_factory");
    } else if (value.is_list() || value.is_tuple()) {
      std::size_t i = 0;
      for (const Value& item : value.as_items()) {
        visit(item, prefix + std::to_string(i++));
      }
    } else {
      add(value, path);
    }
  }

  std::vector<LostObject> take() { return std::move(found_); }

 private:
  void add(const Value& value, const std::string& path) {
    if (!holds_lost(value)) return;
    const auto shard =
        value.is_foreign() ? find_dtensor(value.as_foreign()) : std::optional<DTensor>();
    found_.push_back(
        {.path = path,
         .what = shard ? shard->class_name + " " + placement_text(*shard) : class_of(value),
         .is_shard = shard.has_value()});
  }

  static std::string class_of(const Value& value) {
    return value.is_foreign() ? value.as_foreign().class_name() : std::string(value.type_name());
  }

  const Storages& kept_;
  std::unordered_map<const void*, bool> holds_lost_;  // by identity
  std::unordered_set<const void*> visited_;
  std::vector<LostObject> found_;
};

class LeafStorages {
 public:
  void visit(const Value& value) {
    if (value.identity() == nullptr || !visited_.insert(value.identity()).second) return;
    if (value.is_dict()) {
      for (const auto& [key, item] : value.as_dict()) {
        visit(item);
      }
    } else if (value.is_list() || value.is_tuple()) {
      for (const Value& item : value.as_items()) {
        visit(item);
      }
    } else if (local_tensor(value) == nullptr) {
      visit_all(value);
    }
  }

  Storages take() { return std::move(found_); }

 private:
  void visit_all(const Value& value) {
    for_each_storage(value, [&](const Storage* storage) { found_.insert(storage); });
    for_each_child(value, [&](const Value& part) {
      if (part.identity() != nullptr && inside_.insert(part.identity()).second) visit_all(part);
    });
  }

  std::unordered_set<const void*> visited_;
  std::unordered_set<const void*> inside_;  // the visited values inside leaves
  Storages found_;
};

}  // namespace

std::vector<LostObject> lost_objects(const Value& root, const Storages& kept) {
  LostFinder finder(kept);
  finder.visit(root, "");
  return finder.take();
}

Storages storages_of_leaves(const Value& root) {
  LeafStorages storages;
  storages.visit(root);
  return storages.take();
}

std::vector<std::pair<std::string, std::string>> lost_attributes(const Value& root) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [path, tensor] : tensors_of(root)) {
    if (tensor->lost_attributes != nullptr) found.emplace_back(path, *tensor->lost_attributes);
  }
  return found;
}

bool holds_tensor(const Value& value) { return LostFinder(Storages()).holds_lost(value); }

}  // namespace cairn
