// The stores that need a network, as far as this build has them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cairn/storage/azure.h"
#include "cairn/storage/gcs.h"
#include "cairn/storage/s3.h"
#include "cairn/storage/stores.h"

namespace cairn {

// The factories by scheme. A build without a network (CAIRN_BUILD_NET=OFF) has the same schemes,
// but its factories throw UnsupportedError, which says that the build has no network.
std::map<std::string, ObjectStoreFactory> network_stores();

// Like s3_store() and its siblings, but returns the same store for the same options, environment
// and keys.
std::shared_ptr<ObjectStore> kept_s3_store(const S3Options& options);
std::shared_ptr<ObjectStore> kept_gcs_store(const GcsOptions& options);
std::shared_ptr<ObjectStore> kept_azure_store(const AzureOptions& options);

// The store for "libcloud://CONTAINER". CAIRN_LIBCLOUD_PROVIDER, _KEY_ENVIRON, _SECRET_ENVIRON,
// _REGION, _HOST, _PORT and _SECURE are the arguments of Composer's store. Throws UsageError and
// UnsupportedError, like libcloud_store().
std::shared_ptr<ObjectStore> kept_libcloud_store(const std::string& root);

}  // namespace cairn
