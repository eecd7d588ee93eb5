#include "checkpoint/convert/map_tensors.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "cairn/foreign.h"

#include "format/pickle/globals/storage_classes.h"

namespace cairn {
namespace {

class TensorMap {
 public:
  explicit TensorMap(const std::function<TensorView(const TensorView&)>& change)
      : change_(change) {}

  // Value trees are at most a thousand levels deep, whatever file they come from.
  Value changed(const Value& value) {
    if (!may_have_tensors(value)) return value;
    return value.may_be_shared() ? changed_once(value) : rebuilt(value);
  }

 private:
  static bool may_have_tensors(const Value& value) {
    if (value.identity() == nullptr) return false;  // a number, a text, or empty
    if (!value.is_foreign()) {
      const Kind kind = value.kind();
      return kind != Kind::kNdArray && kind != Kind::kBytes;
    }
    const Foreign::Made made = value.as_foreign().made;
    return made != Foreign::Made::kNamed && made != Foreign::Made::kBackReference;
  }

  Value changed_once(const Value& value) {
    const auto found = changed_.find(value.identity());
    if (found != changed_.end()) return found->second;
    Value result = rebuilt(value);
    changed_.emplace(value.identity(), result);
    return result;
  }

  // Changes a part of an object. The object may be at several places, so the part may, too,
  // whatever may_be_shared() of the part says.
  Value changed_part(const Value& value) {
    return may_have_tensors(value) ? changed_once(value) : value;
  }

  Value rebuilt(const Value& value) {
    if (value.is_tensor()) return change_(value.as_tensor());
    if (value.kind() == Kind::kSparse) return rebuilt_sparse(value.as_sparse());
    if (value.is_dict()) return rebuilt_dict(value.as_dict());
    if (value.is_foreign()) return rebuilt_foreign(value);
    if (value.kind() == Kind::kSet) {
      return Set{.items = rebuilt_items(value.as_set().items), .frozen = value.as_set().frozen};
    }
    List items = rebuilt_items(value.as_items());
    if (value.is_tuple()) return Tuple{std::move(items)};
    return items;
  }

  SparseTensor rebuilt_sparse(SparseTensor sparse) {
    if (sparse.layout != Layout::kSparseCoo) {
      sparse.compressed_indices = change_(sparse.compressed_indices);
    }
    sparse.indices = change_(sparse.indices);
    sparse.values = change_(sparse.values);
    return sparse;
  }

  Dict rebuilt_dict(const Dict& from) {
    Dict dict = from.empty_like();
    dict.reserve(from.size());
    for (const auto& [key, part] : from) {
      dict.set(changed(key), changed(part));
    }
    if (!from.attributes().is_none()) dict.set_attributes(changed_part(from.attributes()));
    if (!is_plain_factory(from.default_factory())) {
      dict.set_default_factory(changed_part(from.default_factory()));
    }
    return dict;
  }

  List rebuilt_items(const List& from) {
    List items;
    items.reserve(from.size());
    for (const Value& item : from) {
      items.push_back(changed(item));
    }
    return items;
  }

  Value rebuilt_foreign(const Value& value) {
    // Objects of this kind are tensors of subclasses and of other devices: the dtype is stored
    // beside the elements.
    if (says_dtype(value.as_foreign())) return value;
    Foreign object = value.as_foreign();
    object.function = changed(object.function);
    object.args = changed(object.args);
    object.keywords = changed(object.keywords);
    object.items = changed(object.items);
    object.entries = changed(object.entries);
    object.state = changed(object.state);
    if (object.made == Foreign::Made::kStorage) name_storage(object);
    return Value(std::make_shared<const Foreign>(std::move(object)));
  }

  // Also looks into arguments that are tuples: a DTensor has its dtype among the arguments of the
  // function that its maker calls.
  static bool says_dtype(const Foreign& object) {
    if (object.made != Foreign::Made::kCalled || !object.args.is_tuple()) return false;
    const List& args = object.args.as_items();
    return has_dtype(args) || std::ranges::any_of(args, [](const Value& arg) {
             return arg.is_tuple() && has_dtype(arg.as_items());
           });
  }

  static bool has_dtype(const List& args) {
    return std::ranges::any_of(args, [](const Value& arg) { return arg.kind() == Kind::kDType; });
  }

  // The class of a storage depends on its dtype.
  static void name_storage(Foreign& storage) {
    const DType dtype = storage.args.as_items().at(0).as_tensor().dtype;
    const std::string_view name = pickle::storage_class(dtype);
    if (name.empty() || storage.class_name() == "torch.storage.UntypedStorage") return;
    storage.function = Value(
        std::make_shared<const Foreign>(Foreign{.module = "torch", .name = std::string(name)}));
  }

  const std::function<TensorView(const TensorView&)>& change_;
  std::unordered_map<const void*, Value> changed_;  // by the identity of the original value
};

}  // namespace

Value map_tensors(const Value& root, const std::function<TensorView(const TensorView&)>& change) {
  return TensorMap(change).changed(root);
}

Value map_storages(const Value& root,
                   const std::function<TypedStorage(const TypedStorage&)>& change) {
  std::map<std::pair<const Storage*, DType>, TypedStorage> changed;
  return map_tensors(root, [&](const TensorView& tensor) {
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
  });
}

}  // namespace cairn
