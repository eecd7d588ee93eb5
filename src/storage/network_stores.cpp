#include "storage/network_stores.h"

#include <mutex>

#include "io/uri.h"
#include "storage/dbfs/store.h"
#include "storage/s3/config.h"
#include "storage/wandb/store.h"

namespace cairn {
namespace {

// One for each bucket and configuration: with it are kept what was learned of the server, and keys
// that were fetched.
std::shared_ptr<ObjectStore> kept_s3_store(const std::string& root) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<ObjectStore>> stores;
  s3::Config config = s3::resolve_config({.bucket = split_uri(root).authority});
  const std::scoped_lock lock(mutex);
  auto& store = stores[config.identity];
  if (store == nullptr) store = s3::make_s3_store(std::move(config));
  return store;
}

}  // namespace

std::map<std::string, ObjectStoreFactory> network_stores() {
  return {{"dbfs", dbfs::kept_dbfs_store},
          {"s3", kept_s3_store},
          {"wandb", wandb::wandb_store_of}};
}

}  // namespace cairn
