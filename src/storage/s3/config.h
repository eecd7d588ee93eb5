// The configuration of an S3 store from options, environment and profile, before its first request.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/s3.h"

#include "net/url.h"
#include "storage/remote/config.h"
#include "storage/s3/credentials.h"

namespace cairn::s3 {

struct Config {
  S3Options options = {};                      // an empty option was found nowhere
  std::optional<Url> endpoint = std::nullopt;  // nullopt: Amazon's own
  bool is_path_style = false;
  bool with_checksums = true;  // of objects, if the server keeps them
  RemoteSettings settings = {};
  std::shared_ptr<CredentialSource> credentials;
  // A hash of the whole configuration. Configurations with equal hashes can share a store.
  std::string identity = {};
};

// Throws UsageError for options that are invalid or contradict each other.
Config resolve_config(const S3Options& options, const Outside& outside = {});

std::shared_ptr<ObjectStore> make_s3_store(Config config);

}  // namespace cairn::s3
