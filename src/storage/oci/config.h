// The configuration of an Oracle store from options and a profile with its key, before its first
// request.
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
  std::string name_space = {};  // the bucket's namespace; empty: the server is asked
  Url endpoint = {};
  RemoteSettings settings = {};
  std::string key_id = {};  // "tenancy/user/fingerprint"
  std::shared_ptr<const RsaKey> key;
  // A hash of the whole configuration. Configurations with equal hashes can share a store.
  std::string identity = {};
};

// Throws UsageError for options that are invalid or contradict each other.
Config resolve_config(const OciOptions& options, const Outside& outside = {});

std::shared_ptr<ObjectStore> make_oci_store(Config config);

}  // namespace cairn::oci
