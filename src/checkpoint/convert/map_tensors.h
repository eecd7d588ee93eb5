// A tree with other tensors, and with other storages.
#pragma once

#include <functional>
#include <memory>

#include "cairn/value.h"

namespace cairn {

// The tree with each tensor replaced by what `change` makes of it, also in the attributes of dicts
// and in foreign objects, but for those that are made of a dtype and a tensor: they would
// contradict themselves. What is one object at several places of the tree is changed once, and is
// one object afterwards: neither time nor memory grows with the number of places.
Value map_tensors(const Value& root, const std::function<TensorView(const TensorView&)>& change);

struct TypedStorage {
  DType dtype;
  std::shared_ptr<const Storage> storage;  // never null
};

// The tree with each storage replaced, together with the dtype in which tensors see it, by what
// `change` makes of it: as many elements as before. Called once for each storage and dtype, so
// that tensors that share one share it afterwards.
Value map_storages(const Value& root,
                   const std::function<TypedStorage(const TypedStorage&)>& change);

}  // namespace cairn
