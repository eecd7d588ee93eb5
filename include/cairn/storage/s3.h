// Checkpoints in buckets of Amazon S3 and servers with its protocol (Ceph, MinIO, CoreWeave, ...).
//
//   save(value, "s3://bucket/run/ep1.pt");             // all from the environment
//   auto store = s3_store({.bucket = "bucket", .endpoint_url = "https://minio.lan:9000"});
//   save(value, "run/ep1.pt", {.store = store});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {

enum class S3Addressing : std::uint8_t {
  kAuto,     // in the host's name at Amazon's own endpoints, in the path elsewhere
  kPath,     // https://host/bucket/key
  kVirtual,  // https://bucket.host/key
};

// Empty options come from the environment and from AWS's files, as for AWS's own tools.
struct S3Options {
  std::string bucket = {};  // required
  // A prefix of all names: with "runs" the name "a.pt" is the object "runs/a.pt".
  std::string prefix = {};
  // AWS_REGION, AWS_DEFAULT_REGION, or the profile's; otherwise us-east-1. A wrong region is
  // corrected by the server's answer.
  std::string region = {};
  // A server in place of Amazon's: S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or the
  // profile's.
  std::string endpoint_url = {};
  S3Addressing addressing = S3Addressing::kAuto;  // CAIRN_S3_ADDRESSING=path, =virtual
  std::string profile = {};                       // AWS_PROFILE, or else "default"
  // Keys: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or any other source of AWS's
  // tools (docs/storage.md). Fetched keys are renewed before they expire.
  std::string access_key_id = {};
  std::string secret_access_key = {};
  std::string session_token = {};
  // The ACL of new objects, such as "bucket-owner-full-control": S3_CANNED_ACL.
  std::string canned_acl = {};
  // "AES256" or "aws:kms": the header x-amz-server-side-encryption. Empty: the bucket's default.
  std::string server_side_encryption = {};
  std::string sse_kms_key_id = {};
  // Over plain HTTP cairn signs the SHA-256 of what it sends, which takes half of an upload's
  // processor time. If true (CAIRN_S3_UNSIGNED_PAYLOAD=1), cairn sends a CRC-64 of each part
  // instead, as over TLS, if the server keeps CRC-64. That detects damage on the way, but not a
  // deliberate change.
  bool unsigned_payload = false;
  // Objects larger than this size (at least 5 MiB) are sent in parts of this size, or in larger
  // parts if there would be too many. An upload holds at most `parallel_requests` + 1 parts in
  // memory.
  std::uint64_t part_bytes = 8 << 20;
  int parallel_requests = 6;  // per upload; reads have up to twice as many
  // Attempts per request. nullopt (or 0): AWS_MAX_ATTEMPTS, or else 8.
  std::optional<int> attempts = std::nullopt;
};

// Makes a store over one bucket, without contacting the server. Throws UsageError for invalid
// options; UnsupportedError if cairn was built without network stores.
//
// A pointer is an object NAME.symlink whose text is the name of another object, as in Composer. A
// folder is a common prefix of names; whole folders cannot be written at once. docs/storage.md says
// what is guaranteed with which server.
std::shared_ptr<ObjectStore> s3_store(const S3Options& options);

}  // namespace cairn
