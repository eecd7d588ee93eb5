// Checkpoints in buckets of Oracle's cloud (OCI Object Storage).
//
//   save(value, "oci://bucket/run/ep1.pt");            // all from ~/.oci/config
//   auto store = oci_store({.bucket = "bucket", .profile = "TRAINING"});
//   save(value, "run/ep1.pt", {.store = store});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// What is empty comes from the profile, as Oracle's own tools have it.
struct OciOptions {
  std::string bucket = {};  // required; "bucket@namespace" names the namespace, too
  // What all names are below: "runs" makes the object "runs/a.pt" of the name "a.pt".
  std::string prefix = {};
  std::string config_file = {};  // OCI_CONFIG_FILE; else ~/.oci/config
  std::string profile = {};      // else DEFAULT; what it lacks is DEFAULT's
  std::string region = {};       // "eu-frankfurt-1"
  // Another server than https://objectstorage.REGION.oraclecloud.com: CAIRN_OCI_ENDPOINT.
  std::string endpoint_url = {};
  // A larger object is sent in parts of so many bytes (at least 5 MiB), or more where there would
  // be too many. An upload holds at most `parallel_requests` + 1 parts in memory.
  std::uint64_t part_bytes = 8 << 20;
  int parallel_requests = 6;  // of one upload; reads have up to twice as many
  // How often a request is tried before it is an error. nullopt (or 0): 8.
  std::optional<int> attempts = std::nullopt;
};

// A store over one bucket. Nothing is asked of the server yet. UsageError for options and a profile
// that cannot be; UnsupportedError where cairn was built without network stores, and for profiles
// that sign with a session's token.
//
// Pointers are Composer's: an object NAME.symlink whose text is the name of another. Folders are
// what names begin with; whole folders cannot be written at once. All conditions hold, also against
// another process in the same instant. docs/storage.md says more.
std::shared_ptr<ObjectStore> oci_store(const OciOptions& options);

}  // namespace cairn
