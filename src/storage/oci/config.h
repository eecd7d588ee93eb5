// What a store of Oracle's knows before its first request: options, and a profile with its key.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/oci.h"

#include "net/rsa.h"
#include "net/url.h"
#include "storage/remote/config.h"

namespace cairn::oci {

struct Config {
  OciOptions options = {};      // `bucket` without a namespace
  std::string name_space = {};  // of the bucket; empty: the server is asked
  Url endpoint = {};
  RemoteSettings settings = {};
  std::string key_id = {};  // "tenancy/user/fingerprint"
  std::shared_ptr<const RsaKey> key;
  std::string identity = {};  // a hash of all of it: where it is the same, a store can be, too
};

// UsageError for what cannot be.
Config resolve_config(const OciOptions& options, const Outside& outside = {});

std::shared_ptr<ObjectStore> make_oci_store(Config config);

}  // namespace cairn::oci
