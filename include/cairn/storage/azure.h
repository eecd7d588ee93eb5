// Checkpoints in containers of Azure Blob Storage, or of Azurite, which speaks its protocol.
//
//   save(value, "azure://container/run/ep1.pt");       // all from the environment
//   auto store = azure_store({.container = "container", .account_name = "mine"});
//   save(value, "run/ep1.pt", {.store = store});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {

// Empty options come from the environment, under the names that Composer and Azure's own tools use.
struct AzureOptions {
  std::string container = {};  // required
  // A prefix of all names: with "runs" the name "a.pt" is the object "runs/a.pt".
  std::string prefix = {};
  // AZURE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT.
  std::string account_name = {};
  // In base64, as the portal shows it: AZURE_ACCOUNT_ACCESS_KEY, AZURE_STORAGE_KEY.
  std::string account_key = {};
  // A shared access signature, in place of the key: AZURE_STORAGE_SAS_TOKEN.
  std::string sas_token = {};
  // All of these in one: AZURE_STORAGE_CONNECTION_STRING. The options above take precedence over
  // the connection string, and the connection string over the other variables.
  std::string connection_string = {};
  // A server in place of https://ACCOUNT.blob.core.windows.net: AZURE_STORAGE_SERVICE_ENDPOINT. For
  // Azurite "http://127.0.0.1:10000/devstoreaccount1".
  std::string endpoint_url = {};
  // Objects larger than this size (at least 1 MiB) are sent in blocks of this size, or in larger
  // blocks if there would be too many. An upload holds at most `parallel_requests` + 1 blocks in
  // memory.
  std::uint64_t part_bytes = 8 << 20;
  int parallel_requests = 6;  // per upload; reads have up to twice as many
  // Attempts per request. nullopt (or 0): 8.
  std::optional<int> attempts = std::nullopt;
};

// Makes a store over one container, without contacting the server. Throws UsageError for invalid
// options, and without a key or a token; UnsupportedError if cairn was built without network
// stores.
//
// A pointer is an object NAME.symlink whose text is the name of another object, as in Composer. A
// folder is a common prefix of names; whole folders cannot be written at once. All conditions also
// hold against another process at the same instant. docs/storage.md says more.
std::shared_ptr<ObjectStore> azure_store(const AzureOptions& options);

}  // namespace cairn
