// Replaces the tensors or the storages of a tree.
#pragma once

#include <functional>
#include <memory>

#include "cairn/value.h"

namespace cairn {

// Returns the tree with each tensor replaced by change(tensor), also in the attributes of dicts and
// in foreign objects. Foreign objects made of a dtype and a tensor stay, since a changed tensor
// would contradict the dtype. An object at several places is changed once and stays one object. So
// neither time nor memory grows with the number of places.
Value map_tensors(const Value& root, const std::function<TensorView(const TensorView&)>& change);

struct TypedStorage {
  DType dtype;
  std::shared_ptr<const Storage> storage;  // never null
};

// Returns the tree with each storage, and the dtype in which tensors see it, replaced by change().
// The result must have as many elements as before. `change` is called once for each storage and
// dtype, so tensors that share a storage share it afterwards.
Value map_storages(const Value& root,
                   const std::function<TypedStorage(const TypedStorage&)>& change);

}  // namespace cairn
