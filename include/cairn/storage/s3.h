// Checkpoints in buckets: Amazon's S3, and what speaks its protocol (Ceph, MinIO, CoreWeave, ...).
//
//   save(value, "s3://bucket/run/ep1.pt");             // all from the environment
//   auto store = s3_store({.bucket = "bucket", .endpoint_url = "https://minio.lan:9000"});
//   save(value, "run/ep1.pt", {.store = store});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

enum class S3Addressing : std::uint8_t {
  kAuto,     // the bucket in the host's name at Amazon's own endpoints, in the path elsewhere
  kPath,     // https://host/bucket/key
  kVirtual,  // https://bucket.host/key
};

// What is empty comes from the environment and from AWS's files, as its own tools take it.
struct S3Options {
  std::string bucket = {};  // required
  // What all names are below: "runs" makes the object "runs/a.pt" of the name "a.pt".
  std::string prefix = {};
  // AWS_REGION, AWS_DEFAULT_REGION, the profile's; else us-east-1. A wrong one is corrected by what
  // the server answers.
  std::string region = {};
  // Another server than Amazon's: S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the
  // profile's.
  std::string endpoint_url = {};
  S3Addressing addressing = S3Addressing::kAuto;  // CAIRN_S3_ADDRESSING=path, =virtual
  std::string profile = {};                       // AWS_PROFILE; else "default"
  // Keys: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, and wherever else AWS's
  // tools look (docs/storage.md); fetched ones are renewed before they end.
  std::string access_key_id = {};
  std::string secret_access_key = {};
  std::string session_token = {};
  // Of what is written: "bucket-owner-full-control"; S3_CANNED_ACL.
  std::string canned_acl = {};
  // "AES256" or "aws:kms": the header x-amz-server-side-encryption; empty: what the bucket does.
  std::string server_side_encryption = {};
  std::string sse_kms_key_id = {};
  // Over plain HTTP the SHA-256 of what is sent is signed: half of the processor time of an upload.
  // With true (CAIRN_S3_UNSIGNED_PAYLOAD=1) a part's CRC-64 stands in the place of it, as over TLS,
  // where the server keeps that: it finds what broke on the way, not what somebody there changed.
  bool unsigned_payload = false;
  // A larger object is sent in parts of so many bytes (at least 5 MiB), or more where there would
  // be too many. An upload holds at most `parallel_requests` + 1 parts in memory.
  std::uint64_t part_bytes = 8 << 20;
  int parallel_requests = 6;  // of one upload; reads have up to twice as many
  // How often a request is tried before it is an error. nullopt (or 0): AWS_MAX_ATTEMPTS, else 8.
  std::optional<int> attempts = std::nullopt;
};

// A store over one bucket. Nothing is asked of the server yet. UsageError for options that cannot
// be; UnsupportedError where cairn was built without network stores.
//
// Pointers are Composer's: an object NAME.symlink whose text is the name of another. Folders are
// what names begin with; whole folders cannot be written at once. docs/storage.md says what is
// guaranteed with which server.
std::shared_ptr<ObjectStore> s3_store(const S3Options& options);

}  // namespace cairn
