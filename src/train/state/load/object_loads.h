// Loading the state of objects that cannot check it beforehand, so that it can be undone.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

// States in a checkpoint's "algorithms", by the algorithm's name; those of one name in their order.
using StatesByName = std::map<std::string, std::vector<const Value*>>;
// `list`: the entry, null where there is none. nullopt: it is not a list of (name, state).
std::optional<StatesByName> algorithm_states(const Value* list);

class ObjectLoads {
 public:
  struct Object {
    std::function<Value()> save;
    std::function<void(const Value& state)> load;
  };

  // Puts the object's present state aside and loads `state`. What that throws becomes a misfit,
  // prefixed with `where`: but for StorageError and std::bad_alloc, which say nothing about whether
  // the state fits, and go on to the caller.
  void load(const std::string& where, const Value& state, const Object& object);
  // An object with state_dict() and load_state_dict(), which must outlive this.
  template <class T>
  void load(const std::string& where, const Value& state, T& object) {
    load(where, state,
         Object{[&object] { return object.state_dict(); },
                [&object](const Value& value) { object.load_state_dict(value); }});
  }

  // Gives every object its state back, last one first; one that refuses stops no other. Returns
  // those that refused, with the reason: their state is now undefined. Needs no memory but what the
  // objects do.
  std::vector<std::string> undo() noexcept;

  const std::vector<std::string>& misfits() const { return misfits_; }

 private:
  struct Loaded {
    std::string where;
    Value before;
    Object object;
  };
  std::vector<Loaded> loaded_;
  std::vector<std::string> refused_;  // with room for all of loaded_
  std::vector<std::string> misfits_;
};

}  // namespace cairn
