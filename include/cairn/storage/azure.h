// Checkpoints in containers of Azure Blob Storage, and of Azurite, which speaks its protocol.
//
//   save(value, "azure://container/run/ep1.pt");       // all from the environment
//   auto store = azure_store({.container = "container", .account_name = "mine"});
//   save(value, "run/ep1.pt", {.store = store});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// What is empty comes from the environment, under the names that Composer and Azure's own tools
// have for it.
struct AzureOptions {
  std::string container = {};  // required
  // What all names are below: "runs" makes the object "runs/a.pt" of the name "a.pt".
  std::string prefix = {};
  // AZURE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT.
  std::string account_name = {};
  // In base64, as the portal shows it: AZURE_ACCOUNT_ACCESS_KEY, AZURE_STORAGE_KEY.
  std::string account_key = {};
  // A shared access signature, in place of the key: AZURE_STORAGE_SAS_TOKEN.
  std::string sas_token = {};
  // All of these in one: AZURE_STORAGE_CONNECTION_STRING. What the options say goes first, then
  // this, then the other variables.
  std::string connection_string = {};
  // Another server than https://ACCOUNT.blob.core.windows.net: AZURE_STORAGE_SERVICE_ENDPOINT. For
  // Azurite "http://127.0.0.1:10000/devstoreaccount1".
  std::string endpoint_url = {};
  // A larger object is sent in blocks of so many bytes (at least 1 MiB), or more where there would
  // be too many. An upload holds at most `parallel_requests` + 1 blocks in memory.
  std::uint64_t part_bytes = 8 << 20;
  int parallel_requests = 6;  // of one upload; reads have up to twice as many
  // How often a request is tried before it is an error. nullopt (or 0): 8.
  std::optional<int> attempts = std::nullopt;
};

// A store over one container. Nothing is asked of the server yet. UsageError for options that
// cannot be, and without a key or a token; UnsupportedError where cairn was built without network
// stores.
//
// Pointers are Composer's: an object NAME.symlink whose text is the name of another. Folders are
// what names begin with; whole folders cannot be written at once. All conditions hold, also against
// another process in the same instant. docs/storage.md says more.
std::shared_ptr<ObjectStore> azure_store(const AzureOptions& options);

}  // namespace cairn
