// Loads files from web servers: "https://host/run/ep1.pt", also with a signed query.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

#include "net/url.h"
#include "storage/remote/remote.h"

namespace cairn::web {

struct Config {
  Url server;             // without a path
  std::string user = {};  // "user:password" of the place, or empty
  RemoteSettings settings = {};
};

// Parses the root of a place: "https://user:password@host:8443". Throws UsageError if it has no
// host.
Config resolve_config(const std::string& root);

// A name is the part of the URL after the host: "run/ep1.pt?signature=...". Objects can be opened
// and examined; everything else throws UnsupportedError. No message contains a password or a query.
std::shared_ptr<ObjectStore> make_web_store(Config config);

}  // namespace cairn::web
