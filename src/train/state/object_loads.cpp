#include "train/state/object_loads.h"

#include <exception>
#include <new>

#include "cairn/error.h"

#include "checkpoint/plan/snapshot.h"

namespace cairn {

void ObjectLoads::load(const std::string& where, const Value& state, const Object& object) {
  try {
    loaded_.push_back({where, Snapshotter().take(object.save()), object});
    object.load(state);
  } catch (const StorageError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {  // of user code, too: everything must be undone
    misfits_.push_back(where + ": " + e.what());
  } catch (...) {
    misfits_.push_back(where + ": threw something that is no std::exception");
  }
}

std::vector<std::string> ObjectLoads::undo() noexcept {
  std::vector<std::string> refused;
  for (; !loaded_.empty(); loaded_.pop_back()) {
    const Loaded& last = loaded_.back();
    try {
      last.object.load(last.before);
    } catch (const std::exception& e) {
      refused.push_back(last.where + ": " + e.what());
    } catch (...) {
      refused.push_back(last.where + ": threw something that is no std::exception");
    }
  }
  return refused;
}

}  // namespace cairn
