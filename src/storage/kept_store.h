// Stores that stay alive, for places that are used again and again.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// Returns the one store for config.identity. The first call makes the store with `make`. The store
// keeps its connections, what it learned about the server, and the keys that it fetched.
template <class Config>
std::shared_ptr<ObjectStore> kept_store(Config config,
                                        std::shared_ptr<ObjectStore> (*make)(Config)) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<ObjectStore>> stores;
  const std::scoped_lock lock(mutex);
  auto& store = stores[config.identity];
  if (store == nullptr) store = make(std::move(config));
  return store;
}

}  // namespace cairn
