#include "train/state/load/object_loads.h"

#include <exception>
#include <new>
#include <utility>

#include "cairn/error.h"

#include "train/state/device/staging.h"

namespace cairn {
namespace {

Value copy_of(const Value& state) {
  StagedReads reads;
  Value copy = staged(
      state, [](const Storage&) { return true; }, reads);
  read_staged(std::move(reads));
  return copy;
}

void add_reason(std::string& line, const char* reason) noexcept {
  try {
    line.append(": ").append(reason);
  } catch (const std::bad_alloc&) {  // The name alone has to do.
  }
}

}  // namespace

std::optional<StatesByName> algorithm_states(const Value* list) {
  StatesByName by_name;
  if (list == nullptr || !list->is_list()) return by_name;
  for (const Value& pair : list->as_items()) {
    const bool is_pair = (pair.is_tuple() || pair.is_list()) && pair.as_items().size() == 2 &&
                         pair.as_items()[0].is_str();
    if (!is_pair) return std::nullopt;
    by_name[pair.as_items()[0].as_str()].push_back(&pair.as_items()[1]);
  }
  return by_name;
}

void ObjectLoads::load(const std::string& where, const Value& state, const Object& object) {
  try {
    refused_.reserve(loaded_.size() + 1);
    loaded_.push_back({where, copy_of(object.save()), object});
    object.load(state);
  } catch (const StorageError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {  // User code may throw anything; everything must be undone.
    misfits_.push_back(where + ": " + e.what());
  } catch (...) {
    misfits_.push_back(where + ": threw an object that is not a std::exception");
  }
}

std::vector<std::string> ObjectLoads::undo() noexcept {
  for (; !loaded_.empty(); loaded_.pop_back()) {
    Loaded& last = loaded_.back();
    try {
      last.object.load(last.before);
    } catch (const std::exception& e) {
      refused_.push_back(std::move(last.where));
      add_reason(refused_.back(), e.what());
    } catch (...) {
      refused_.push_back(std::move(last.where));
      add_reason(refused_.back(), "threw an object that is not a std::exception");
    }
  }
  return std::move(refused_);
}

}  // namespace cairn
