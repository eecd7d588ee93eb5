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

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {

// Empty options come from the profile, as for Oracle's own tools.
struct OciOptions {
  std::string bucket = {};  // required; "bucket@namespace" names the namespace, too
  // A prefix of all names: with "runs" the name "a.pt" is the object "runs/a.pt".
  std::string prefix = {};
  std::string config_file = {};  // OCI_CONFIG_FILE, or else ~/.oci/config
  std::string profile = {};      // default: DEFAULT, which also supplies what a profile lacks
  std::string region = {};       // "eu-frankfurt-1"
  // A server in place of https://objectstorage.REGION.oraclecloud.com: CAIRN_OCI_ENDPOINT.
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
// options or an invalid profile; UnsupportedError if cairn was built without network stores, and
// for profiles that sign with a session's token.
//
// A pointer is an object NAME.symlink whose text is the name of another object, as in Composer. A
// folder is a common prefix of names; whole folders cannot be written at once. All conditions also
// hold against another process at the same instant. docs/storage.md says more.
std::shared_ptr<ObjectStore> oci_store(const OciOptions& options);

}  // namespace cairn
