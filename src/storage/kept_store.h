// Stores that stay, for places that are used again and again.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// One for each Config::identity, made by `make`: with it are kept its connections, what was learned
// of the server, and keys that were fetched.
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
