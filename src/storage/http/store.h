// Files of web servers, to be loaded: "https://host/run/ep1.pt", also with a query that is signed.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

#include "net/url.h"
#include "storage/remote/remote.h"

namespace cairn::web {

struct Config {
  Url server;             // without what is below
  std::string user = {};  // "user:password" of the place; empty without one
  RemoteSettings settings = {};
};

// Of the root of a place: "https://user:password@host:8443". UsageError when it has no host.
Config resolve_config(const std::string& root);

// Names are what stands behind the host: "run/ep1.pt?signature=...". They are opened and looked at;
// everything else is an UnsupportedError. No message holds a password or a query.
std::shared_ptr<ObjectStore> make_web_store(Config config);

}  // namespace cairn::web
