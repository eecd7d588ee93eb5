// Loading the state of objects that cannot check it beforehand, so that it can be undone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

class ObjectLoads {
 public:
  struct Object {
    std::function<Value()> save;
    std::function<void(const Value& state)> load;
  };

  // Puts the object's present state aside and loads `state`. What that throws becomes a misfit,
  // prefixed with `where`.
  void load(const std::string& where, const Value& state, const Object& object);
  // An object with state_dict() and load_state_dict(), which must outlive this.
  template <class T>
  void load(const std::string& where, const Value& state, T& object) {
    load(where, state,
         Object{[&object] { return object.state_dict(); },
                [&object](const Value& value) { object.load_state_dict(value); }});
  }

  // Gives every object its state back, last one first.
  void undo();

  const std::vector<std::string>& misfits() const { return misfits_; }

 private:
  struct Loaded {
    Value before;
    Object object;
  };
  std::vector<Loaded> loaded_;
  std::vector<std::string> misfits_;
};

}  // namespace cairn
