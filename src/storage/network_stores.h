// The stores that need a network: what of them is in this build.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cairn/storage/azure.h"
#include "cairn/storage/gcs.h"
#include "cairn/storage/s3.h"
#include "cairn/storage/stores.h"

namespace cairn {

// By scheme. In a build without them (CAIRN_BUILD_NET=OFF) the same schemes, with factories that
// throw UnsupportedError and say so.
std::map<std::string, ObjectStoreFactory> network_stores();

// As s3_store() and its siblings, but the same one for the same options, environment and keys.
std::shared_ptr<ObjectStore> kept_s3_store(const S3Options& options);
std::shared_ptr<ObjectStore> kept_gcs_store(const GcsOptions& options);
std::shared_ptr<ObjectStore> kept_azure_store(const AzureOptions& options);

// Of "libcloud://CONTAINER": of the provider, and with the keys, that CAIRN_LIBCLOUD_PROVIDER,
// _KEY_ENVIRON, _SECRET_ENVIRON, _REGION, _HOST, _PORT and _SECURE say, which are the arguments of
// Composer's store. UsageError, and UnsupportedError, as libcloud_store().
std::shared_ptr<ObjectStore> kept_libcloud_store(const std::string& root);

}  // namespace cairn
