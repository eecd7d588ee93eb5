// Checkpoints in buckets of Google Cloud Storage.
//
//   save(value, "gs://bucket/run/ep1.pt");             // all from the environment
//   auto store = gcs_store({.bucket = "bucket", .credentials_file = "robot.json"});
//   save(value, "run/ep1.pt", {.store = store});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {

// Empty options come from the environment, as for Composer and Google's own tools.
struct GcsOptions {
  std::string bucket = {};  // required
  // A prefix of all names: with "runs" the name "a.pt" is the object "runs/a.pt".
  std::string prefix = {};
  // An HMAC key: GCS_KEY and GCS_SECRET. The key takes precedence over credentials_file.
  std::string key = {};
  std::string secret = {};
  // A JSON file of a service account or of a user: GOOGLE_APPLICATION_CREDENTIALS, or else gcloud's
  // application_default_credentials.json. Without a file, tokens come from the machine's own
  // account. Tokens are renewed before they expire.
  std::string credentials_file = {};
  // A server in place of https://storage.googleapis.com: STORAGE_EMULATOR_HOST.
  std::string endpoint_url = {};
  // Objects larger than this size (at least 5 MiB) are sent in parts of this size, or in larger
  // parts if there would be too many. An upload holds at most `parallel_requests` + 1 parts in
  // memory.
  std::uint64_t part_bytes = 8 << 20;
  int parallel_requests = 6;  // per upload; reads have up to twice as many
  // Attempts per request. nullopt (or 0): 8.
  std::optional<int> attempts = std::nullopt;
};

// Makes a store over one bucket, without contacting the server. Throws UsageError for invalid
// options; UnsupportedError if cairn was built without network stores, and for a kind of
// credentials that cairn does not know.
//
// A pointer is an object NAME.symlink whose text is the name of another object, as in Composer. A
// folder is a common prefix of names; whole folders cannot be written at once. docs/storage.md says
// what is guaranteed.
std::shared_ptr<ObjectStore> gcs_store(const GcsOptions& options);

}  // namespace cairn
