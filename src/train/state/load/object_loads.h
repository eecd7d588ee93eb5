// Loads the state of objects that cannot check it beforehand, in a way that can be undone.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

// The states in a checkpoint's "algorithms", by the algorithm's name. The states of one name keep
// their order.
using StatesByName = std::map<std::string, std::vector<const Value*>>;
// `list`: the entry, or null. nullopt: the entry is not a list of (name, state).
std::optional<StatesByName> algorithm_states(const Value* list);

class ObjectLoads {
 public:
  struct Object {
    std::function<Value()> save;
    std::function<void(const Value& state)> load;
  };

  // Saves the object's present state and loads `state`. An exception becomes a misfit, prefixed
  // with `where`. Only StorageError and std::bad_alloc go on to the caller: they say nothing about
  // whether the state fits.
  void load(const std::string& where, const Value& state, const Object& object);
  // An object with state_dict() and load_state_dict(). The object must outlive this ObjectLoads.
  template <class T>
  void load(const std::string& where, const Value& state, T& object) {
    load(where, state,
         Object{[&object] { return object.state_dict(); },
                [&object](const Value& value) { object.load_state_dict(value); }});
  }

  // Restores every object's state, in reverse order; an object that refuses does not stop the
  // others. Returns those that refused, with the reason: their state is now undefined. Allocates
  // nothing beyond what the objects allocate.
  std::vector<std::string> undo() noexcept;

  const std::vector<std::string>& misfits() const { return misfits_; }

 private:
  struct Loaded {
    std::string where;
    Value before;
    Object object;
  };
  std::vector<Loaded> loaded_;
  std::vector<std::string> refused_;  // Has room for all of loaded_.
  std::vector<std::string> misfits_;
};

}  // namespace cairn
