// What cairn relies on in a store, as checks that need no test framework:
//
//   for (const ObjectStoreCheck& check : object_store_checks()) {
//     auto store = std::make_shared<MyStore>(...);
//     check.run(*store, "empty/folder");     // throws ObjectStoreFailure
//   }
//
// Each check is to be run with a folder that is empty, or not there; it leaves objects in it.
#pragma once

#include <span>
#include <stdexcept>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// What the store did, and what was expected of it.
class ObjectStoreFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ObjectStoreCheck {
  const char* name;  // a test's: "CommitPublishesAllBytes"
  void (*run)(ObjectStore& store, const std::string& folder);
};

// All of them. What the store's features() do not promise is checked to be refused.
std::span<const ObjectStoreCheck> object_store_checks();

}  // namespace cairn
