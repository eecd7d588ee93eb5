// What a store of Azure's knows before its first request: options, environment.
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
  Url endpoint;          // with the account in its path where it is not in the host
  SharedKey key = {};    // without a key there is
  std::string sas = {};  // a token, "sv=...&sig=...", as it is appended to queries
  RemoteSettings settings = {};
  std::string identity = {};  // a hash of all of it: where it is the same, a store can be, too
};

// UsageError for what cannot be.
Config resolve_config(const AzureOptions& options, const Outside& outside = {});

std::shared_ptr<ObjectStore> make_azure_store(Config config);

}  // namespace cairn::azure
