// What an S3 store knows before its first request: options, environment, profile.
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
  S3Options options = {};                      // what is empty here was found nowhere
  std::optional<Url> endpoint = std::nullopt;  // nullopt: Amazon's own
  bool is_path_style = false;
  bool with_checksums = true;  // of objects, where the server keeps them
  RemoteSettings settings = {};
  std::shared_ptr<CredentialSource> credentials;
  std::string identity = {};  // a hash of all of it: where it is the same, a store can be, too
};

// UsageError for what cannot be.
Config resolve_config(const S3Options& options, const Outside& outside = {});

std::shared_ptr<ObjectStore> make_s3_store(Config config);

}  // namespace cairn::s3
