// Stores by Apache libcloud's provider names. Composer's LibcloudObjectStore takes these names, as
// its predecessor ObjectStoreHparams did. New programs make the store itself (cairn/storage/s3.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {

struct LibcloudOptions {
  std::string provider = {};   // required: "s3", "minio", "digitalocean_spaces", ... in any case
  std::string container = {};  // required: the bucket
  // Names of the environment variables that hold the key and the secret. If neither these names nor
  // a key are given, the store looks for credentials by itself.
  std::string key_environ = {};
  std::string secret_environ = {};
  // From libcloud's provider_kwargs.
  std::string key = {};
  std::string secret = {};
  std::string region = {};
  // Name of the server; required for providers without servers of their own ("minio")
  std::string host = {};
  std::optional<int> port = std::nullopt;  // nullopt: the default of http or https
  bool secure = true;                      // https
};

// Throws UsageError naming a missing option, or a variable that is not set. Throws UnsupportedError
// for a provider without a store here, saying what to do instead.
std::shared_ptr<ObjectStore> libcloud_store(const LibcloudOptions& options);

// Composer's class of that name, until 0.7.
struct ObjectStoreHparams {
  std::string provider = {};
  std::string container = {};
  std::string key_environ = {};
  std::string secret_environ = {};
  std::string region = {};
  std::string host = {};
  std::optional<int> port = std::nullopt;

  // As libcloud_store().
  std::shared_ptr<ObjectStore> initialize_object() const;
};

}  // namespace cairn
