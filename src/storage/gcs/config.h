// What a store of Google's knows before its first request: options, environment, credentials.
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
  bool is_hmac = false;  // otherwise the credentials are tokens: gcs/token.h
  std::shared_ptr<s3::CredentialSource> credentials;
  std::string identity = {};  // a hash of all of it: where it is the same, a store can be, too
};

// UsageError for what cannot be.
Config resolve_config(const GcsOptions& options, const Outside& outside = {});

std::shared_ptr<ObjectStore> make_gcs_store(Config config);

}  // namespace cairn::gcs
