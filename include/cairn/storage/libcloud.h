// Stores by the names that Apache libcloud has for them, as Composer's LibcloudObjectStore takes
// them, and before it ObjectStoreHparams. New programs name the store itself (cairn/storage/s3.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

struct LibcloudOptions {
  std::string provider = {};   // required: "s3", "minio", "digitalocean_spaces", ... in any case
  std::string container = {};  // required: the bucket
  // Names of the variables of the environment that hold the key and the secret. When neither is
  // given, and no key: what the store itself looks for.
  std::string key_environ = {};
  std::string secret_environ = {};
  // Of libcloud's provider_kwargs.
  std::string key = {};
  std::string secret = {};
  std::string region = {};
  std::string host = {};  // of the server; required where the provider is no company
  std::optional<int> port = std::nullopt;  // nullopt: that of http or https
  bool secure = true;                      // https
};

// UsageError for what is missing, or a variable that is not set, by its name; UnsupportedError for
// a provider without a store here, saying what to do instead.
std::shared_ptr<ObjectStore> libcloud_store(const LibcloudOptions& options);

// Composer's, until 0.7.
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
