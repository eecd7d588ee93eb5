#include "value/value_path.h"

#include <algorithm>
#include <charconv>

#include "cairn/dtensor.h"
#include "cairn/foreign.h"

#include "core/text/float_text.h"

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
      return key.get_if<BigInt>()->text();
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

bool has_unique_text(const Value& key) {
  switch (key.kind()) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
    case Kind::kFloat:
    case Kind::kStr:
    case Kind::kNumpyScalar:
      return true;
    default:
      return false;
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

namespace {

// Walks a tree with a single path text for the whole tree, so that only found tensors cost memory.
class TensorWalk {
 public:
  using Found = std::vector<std::pair<std::string, const TensorView*>>;

  Found all_of(const Value& root) {
    enter(root);
    while (!open_.empty()) {
      Level& level = open_.back();
      path_.resize(level.path_size);
      if (level.next == level.size()) {
        open_.pop_back();
      } else {
        enter(level.take(path_));
      }
    }
    return std::move(found_);
  }

 private:
  struct Level {
    const List* items = nullptr;
    const Dict* dict = nullptr;
    std::size_t path_size = 0;
    std::size_t next = 0;

    std::size_t size() const { return dict != nullptr ? dict->size() : items->size(); }
    // Returns the next part. Appends its name to `path` if it may hold tensors.
    const Value& take(std::string& path) {
      const std::size_t i = next++;
      const Value& part =
          dict != nullptr ? (dict->begin() + static_cast<std::ptrdiff_t>(i))->second : (*items)[i];
      if (!may_hold_tensors(part)) return part;
      if (!path.empty()) path += '/';
      path += dict != nullptr ? key_text((dict->begin() + static_cast<std::ptrdiff_t>(i))->first)
                              : std::to_string(i);
      return part;
    }
  };

  static bool may_hold_tensors(const Value& value) {
    return value.is_dict() || value.is_list() || value.is_tuple() || value.is_tensor() ||
           value.kind() == Kind::kSparse || value.is_foreign();
  }

  void enter(const Value& value) {
    if (value.is_tensor()) {
      found_.emplace_back(path_, &value.as_tensor());
    } else if (value.kind() == Kind::kSparse) {
      for (const auto& [part, tensor] : parts_of(value.as_sparse())) {
        found_.emplace_back((path_.empty() ? "" : path_ + "/") + std::string(part), tensor);
      }
    } else if (value.is_dict()) {
      open_.push_back({.dict = &value.as_dict(), .path_size = path_.size()});
    } else if (value.is_list() || value.is_tuple()) {
      open_.push_back({.items = &value.as_items(), .path_size = path_.size()});
    } else if (const TensorView* local = local_tensor(value)) {
      found_.emplace_back(path_, local);
    }
  }

  Found found_;
  std::string path_;
  std::vector<Level> open_;
};

}  // namespace

std::vector<std::pair<std::string, const TensorView*>> tensors_of(const Value& root) {
  return TensorWalk().all_of(root);
}

}  // namespace cairn
