#include "storage/remote/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "cairn/error.h"

#include "core/environment.h"
#include "core/text/hex.h"
#include "net/digest.h"

namespace cairn {
namespace {

constexpr int kMaxAttempts = 100;
constexpr int kMaxParallel = 64;

}  // namespace

RemoteSettings remote_settings(const Outside& outside) {
  RemoteSettings settings;
  settings.retries = outside.retries;
  settings.client = outside.client ? outside.client : shared_http_client();
  settings.ca_file = environment("SSL_CERT_FILE");
  return settings;
}

void check_bucket(const BucketOptions& options, const BucketRules& rules) {
  if (options.bucket.empty() || options.bucket.find('/') != std::string::npos) {
    throw UsageError(fmt::format("{} needs the name of a {}, as in {}; given: \"{}\"", rules.store,
                                 rules.bucket, rules.example, options.bucket));
  }
  if (options.part_bytes < rules.least_part) {
    throw UsageError(fmt::format("part_bytes of {} must be at least {}, given: {}", rules.store,
                                 rules.least_part, options.part_bytes));
  }
  if (options.part_bytes > rules.most_part) {
    throw UsageError(fmt::format("part_bytes of {} must be at most {}, given: {}", rules.store,
                                 rules.most_part, options.part_bytes));
  }
  if (options.parallel_requests < 1 || options.parallel_requests > kMaxParallel) {
    throw UsageError(fmt::format("parallel_requests of {} must be 1 to {}, given: {}", rules.store,
                                 kMaxParallel, options.parallel_requests));
  }
  if (options.attempts < 0) {
    throw UsageError(
        fmt::format("attempts of {} cannot be negative, given: {}", rules.store, options.attempts));
  }
}

RemoteSettings bucket_settings(const BucketOptions& options, const Outside& outside) {
  RemoteSettings settings = remote_settings(outside);
  if (options.attempts > 0) {
    settings.retries.policy.attempts = std::min(options.attempts, kMaxAttempts);
  }
  settings.part_bytes = options.part_bytes;
  settings.parallel_requests = options.parallel_requests;
  return settings;
}

std::string config_identity(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts)
    text += part + "\n";
  return hex(sha256(text));
}

}  // namespace cairn
