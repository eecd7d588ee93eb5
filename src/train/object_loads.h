// Loading the state of objects that cannot check it beforehand, so that it can be undone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

class ObjectLoads {
 public:
  using Load = std::function<void(const Value& state)>;

  // Calls load(state) after putting `before`, the object's present state, aside. What it throws
  // becomes a misfit, prefixed with `where`.
  void load(const std::string& where, const Value& state, const Value& before, Load load);

  // Gives every object its state back, last one first.
  void undo();

  const std::vector<std::string>& misfits() const { return misfits_; }

 private:
  struct Loaded {
    Value before;
    Load load;
  };
  std::vector<Loaded> loaded_;
  std::vector<std::string> misfits_;
};

}  // namespace cairn
