// Checks of what cairn requires of a store. The checks need no test framework:
//
//   for (const ObjectStoreCheck& check : object_store_checks()) {
//     auto store = std::make_shared<MyStore>(...);
//     check.run(*store, "empty/folder");     // throws ObjectStoreFailure
//   }
//
// Run each check with a folder that is empty or missing; the check leaves objects in it.
#pragma once

#include <span>
#include <stdexcept>
#include <string>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {

// Says what the store did, and what was expected.
class ObjectStoreFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ObjectStoreCheck {
  const char* name;  // name of a test: "CommitPublishesAllBytes"
  void (*run)(ObjectStore& store, const std::string& folder);
};

// All checks. A feature that the store's features() do not promise must be refused.
std::span<const ObjectStoreCheck> object_store_checks();

}  // namespace cairn
