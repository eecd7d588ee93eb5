#include "train/object_loads.h"

#include <exception>

#include "checkpoint/snapshot.h"

namespace cairn {

void ObjectLoads::load(const std::string& where, const Value& state, const Object& object) {
  try {
    loaded_.push_back({Snapshotter().take(object.save()), object});
    object.load(state);
  } catch (const std::exception& e) {  // of user code, too: everything must be undone
    misfits_.push_back(where + ": " + e.what());
  }
}

void ObjectLoads::undo() {
  for (; !loaded_.empty(); loaded_.pop_back()) {
    loaded_.back().object.load(loaded_.back().before);
  }
}

}  // namespace cairn
