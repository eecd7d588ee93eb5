// The configuration of an Azure store from options and environment, before its first request.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/azure.h"

#include "net/url.h"
#include "storage/azure/shared_key.h"
#include "storage/remote/config.h"

namespace cairn::azure {

struct Config {
  std::string container;
  std::string prefix;
  Url endpoint;          // its path contains the account if its host does not
  SharedKey key = {};    // without a key if there is a token
  std::string sas = {};  // a token, "sv=...&sig=...", appended to queries
  RemoteSettings settings = {};
  // A hash of the whole configuration. Configurations with equal hashes can share a store.
  std::string identity = {};
};

// Throws UsageError for options that are invalid or contradict each other.
Config resolve_config(const AzureOptions& options, const Outside& outside = {});

std::shared_ptr<ObjectStore> make_azure_store(Config config);

}  // namespace cairn::azure
