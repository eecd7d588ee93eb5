// The configuration that all stores on servers share: how much goes into one request, how many
// requests run at once, how often each is tried, and which client and certificates they use.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "storage/remote/remote.h"

namespace cairn {

// Tests replace the network and the clock with these fields. Empty fields: the real ones.
struct Outside {
  std::shared_ptr<HttpClient> client = {};
  NetRetries retries = {};
};

// Settings without options: retries and client from `outside`, certificates from SSL_CERT_FILE.
RemoteSettings remote_settings(const Outside& outside = {});

// The options that all buckets share.
struct BucketOptions {
  const std::string& bucket;
  std::uint64_t part_bytes;
  int parallel_requests;
  int attempts;  // 0: the number of remote_settings()
};

// The limits of a server, and how messages name it.
struct BucketRules {
  std::string_view store;    // "an S3 store"
  std::string_view example;  // "s3://bucket/name"
  std::string_view bucket = "bucket";
  std::uint64_t least_part = std::uint64_t{5} << 20;  // of all parts except the last
  std::uint64_t most_part = std::numeric_limits<std::uint64_t>::max();
};

// Throws UsageError for options that the rules do not allow.
void check_bucket(const BucketOptions& options, const BucketRules& rules);
// remote_settings() with these options, which check_bucket() must have accepted.
RemoteSettings bucket_settings(const BucketOptions& options, const Outside& outside);

// A hash of the parts of a configuration. Equal hashes mean that one store can serve both
// configurations. The hash reveals no secrets among the parts.
std::string config_identity(std::initializer_list<std::string> parts);

}  // namespace cairn
