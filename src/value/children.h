// Calls a function for each child of a Value.
#pragma once

#include "cairn/foreign.h"
#include "cairn/value.h"

namespace cairn {

// Calls use(child) for each Value directly in `value`. These are the keys, values, attributes and
// default factory of a dict; the items of a list, a tuple or a set; the parts of an object. Trees
// are at most a thousand levels deep, whatever file they come from, so `use` may call
// for_each_child() again.
template <class Use>
void for_each_child(const Value& value, const Use& use) {
  if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict()) {
      use(key);
      use(item);
    }
    use(value.as_dict().attributes());
    use(value.as_dict().default_factory());
  } else if (value.is_list() || value.is_tuple()) {
    for (const Value& item : value.as_items()) {
      use(item);
    }
  } else if (value.kind() == Kind::kSet) {
    for (const Value& item : value.as_set().items) {
      use(item);
    }
  } else if (value.is_foreign()) {
    const Foreign& object = value.as_foreign();
    for (const Value* part : {&object.function, &object.args, &object.keywords, &object.items,
                              &object.entries, &object.state}) {
      use(*part);
    }
  }
}

}  // namespace cairn
