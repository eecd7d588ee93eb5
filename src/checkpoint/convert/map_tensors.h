// A tree with other tensors, and with other storages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cairn/value.h"

namespace cairn {

// Whether the tensors in foreign objects are changed, too. In another dtype they would no longer be
// what the object's class left there.
enum class InObjects : std::uint8_t { kStay, kChanged };

// The tree with each tensor replaced by what `change` makes of it. What is one object at several
// places of the tree is changed once, and is one object afterwards.
Value map_tensors(const Value& root, const std::function<TensorView(const TensorView&)>& change,
                  InObjects in_objects = InObjects::kStay);

struct TypedStorage {
  DType dtype;
  std::shared_ptr<const Storage> storage;  // never null
};

// The tree with each storage replaced, together with the dtype in which tensors see it, by what
// `change` makes of it: as many elements as before. Called once for each storage and dtype, so
// that tensors that share one share it afterwards.
Value map_storages(const Value& root,
                   const std::function<TypedStorage(const TypedStorage&)>& change,
                   InObjects in_objects = InObjects::kStay);

}  // namespace cairn
