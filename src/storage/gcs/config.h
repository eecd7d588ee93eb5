// The configuration of a Google store from options, environment and credentials, before its first
// request.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/gcs.h"

#include "net/url.h"
#include "storage/remote/config.h"
#include "storage/s3/credentials.h"

namespace cairn::gcs {

struct Config {
  GcsOptions options = {};
  Url endpoint = {};
  RemoteSettings settings = {};
  bool is_hmac = false;  // false: the credentials are tokens (gcs/token.h)
  std::shared_ptr<s3::CredentialSource> credentials;
  // A hash of the whole configuration. Configurations with equal hashes can share a store.
  std::string identity = {};
};

// Throws UsageError for options that are invalid or contradict each other.
Config resolve_config(const GcsOptions& options, const Outside& outside = {});

std::shared_ptr<ObjectStore> make_gcs_store(Config config);

}  // namespace cairn::gcs
