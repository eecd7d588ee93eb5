#include "checkpoint/convert/map_tensors.h"

#include <map>
#include <unordered_map>
#include <utility>

#include "cairn/foreign.h"

namespace cairn {
namespace {

class TensorMap {
 public:
  TensorMap(const std::function<TensorView(const TensorView&)>& change, InObjects in_objects)
      : change_(change), in_objects_(in_objects) {}

  Value changed(const Value& value) {
    const bool has_tensors = value.is_tensor() || value.kind() == Kind::kSparse ||
                             value.is_dict() || value.is_list() || value.is_tuple() ||
                             value.kind() == Kind::kSet ||
                             (value.is_foreign() && in_objects_ == InObjects::kChanged);
    if (!has_tensors) return value;
    if (value.identity() == nullptr) return value;  // empty
    if (!value.may_be_shared()) return rebuilt(value);
    const auto found = changed_.find(value.identity());
    if (found != changed_.end()) return found->second;
    Value result = rebuilt(value);
    changed_.emplace(value.identity(), result);
    return result;
  }

 private:
  Value rebuilt(const Value& value) {
    if (value.is_tensor()) return change_(value.as_tensor());
    if (value.kind() == Kind::kSparse) {
      SparseTensor sparse = value.as_sparse();
      if (sparse.layout != Layout::kSparseCoo) {
        sparse.compressed_indices = change_(sparse.compressed_indices);
      }
      sparse.indices = change_(sparse.indices);
      sparse.values = change_(sparse.values);
      return sparse;
    }
    if (value.is_dict()) {
      Dict dict = value.as_dict().empty_like();
      dict.reserve(value.as_dict().size());
      for (const auto& [key, part] : value.as_dict()) {
        dict.set(changed(key), changed(part));
      }
      return dict;
    }
    if (value.is_foreign()) return rebuilt_object(value);
    const bool is_set = value.kind() == Kind::kSet;
    List items;
    for (const Value& item : is_set ? value.as_set().items : value.as_items()) {
      items.push_back(changed(item));
    }
    if (is_set) return Set{std::move(items), value.as_set().frozen};
    if (value.is_tuple()) return Tuple{std::move(items)};
    return items;
  }

  Value rebuilt_object(const Value& value) {
    if (value.as_foreign().made == Foreign::Made::kNamed) return value;
    Foreign object = value.as_foreign();
    for (Value* part : {&object.function, &object.args, &object.keywords, &object.items,
                        &object.entries, &object.state}) {
      *part = changed(*part);
    }
    return Value(std::make_shared<const Foreign>(std::move(object)));
  }

  const std::function<TensorView(const TensorView&)>& change_;
  InObjects in_objects_;
  std::unordered_map<const void*, Value> changed_;  // by identity of what was there
};

}  // namespace

Value map_tensors(const Value& root, const std::function<TensorView(const TensorView&)>& change,
                  InObjects in_objects) {
  return TensorMap(change, in_objects).changed(root);
}

Value map_storages(const Value& root,
                   const std::function<TypedStorage(const TypedStorage&)>& change,
                   InObjects in_objects) {
  std::map<std::pair<const Storage*, DType>, TypedStorage> changed;
  const auto change_tensor = [&](const TensorView& tensor) {
    if (tensor.storage == nullptr) return tensor;
    const auto key = std::pair(tensor.storage.get(), tensor.dtype);
    auto found = changed.find(key);
    if (found == changed.end()) {
      found = changed.emplace(key, change({tensor.dtype, tensor.storage})).first;
    }
    TensorView result = tensor;
    result.dtype = found->second.dtype;
    result.storage = found->second.storage;
    return result;
  };
  return map_tensors(root, change_tensor, in_objects);
}

}  // namespace cairn
