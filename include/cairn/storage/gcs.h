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

#include "cairn/storage/object_store.h"

namespace cairn {

// What is empty comes from the environment, as Composer and Google's own tools take it.
struct GcsOptions {
  std::string bucket = {};  // required
  // What all names are below: "runs" makes the object "runs/a.pt" of the name "a.pt".
  std::string prefix = {};
  // An HMAC key: GCS_KEY and GCS_SECRET. It goes before what follows.
  std::string key = {};
  std::string secret = {};
  // A file of a service account or of a user (JSON): GOOGLE_APPLICATION_CREDENTIALS, else gcloud's
  // application_default_credentials.json; without one the machine's own account is asked for
  // tokens. They are renewed before they end.
  std::string credentials_file = {};
  // Another server than https://storage.googleapis.com: STORAGE_EMULATOR_HOST.
  std::string endpoint_url = {};
  // A larger object is sent in parts of so many bytes (at least 5 MiB), or more where there would
  // be too many. An upload holds at most `parallel_requests` + 1 parts in memory.
  std::uint64_t part_bytes = 8 << 20;
  int parallel_requests = 6;  // of one upload; reads have up to twice as many
  // How often a request is tried before it is an error. nullopt (or 0): 8.
  std::optional<int> attempts = std::nullopt;
};

// A store over one bucket. Nothing is asked of the server yet. UsageError for options that cannot
// be; UnsupportedError where cairn was built without network stores, and for a kind of credentials
// that cairn does not know.
//
// Pointers are Composer's: an object NAME.symlink whose text is the name of another. Folders are
// what names begin with; whole folders cannot be written at once. docs/storage.md says what is
// guaranteed.
std::shared_ptr<ObjectStore> gcs_store(const GcsOptions& options);

}  // namespace cairn
