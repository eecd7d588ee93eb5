#include "storage/s3/config.h"

#include <algorithm>
#include <charconv>

#include "cairn/error.h"

#include "core/environment.h"
#include "core/text/printable.h"
#include "storage/s3/profile.h"

namespace cairn::s3 {
namespace {

constexpr BucketRules kRules = {.store = "an S3 store", .example = "s3://bucket/name"};

// The first text that is not empty.
std::string first_nonempty(std::initializer_list<std::string> candidates) {
  for (const std::string& candidate : candidates) {
    if (!candidate.empty()) return candidate;
  }
  return {};
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

std::string setting(const Profile& profile, const std::string& name) {
  const auto found = profile.find(name);
  return found == profile.end() ? "" : found->second;
}

bool is_name_of_host(const std::string& bucket) {
  return bucket.size() >= 3 && bucket.size() <= 63 &&
         std::all_of(bucket.begin(), bucket.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });  // With a dot no certificate would match.
}

int attempts_of(const S3Options& options) {
  const std::string text = environment("AWS_MAX_ATTEMPTS");
  const int given = options.attempts.value_or(0);
  if (given != 0 || text.empty()) return given;
  int attempts = 0;
  std::from_chars(text.data(), text.data() + text.size(), attempts);
  if (attempts < 1) throw UsageError("AWS_MAX_ATTEMPTS must be a number, at least 1");
  return attempts;
}

BucketOptions bucket_options(const S3Options& options) {
  return {options.bucket, options.part_bytes, options.parallel_requests, attempts_of(options)};
}

bool path_style(const S3Options& options, bool is_amazon, const Profile& profile) {
  const std::string text =
      first_nonempty({environment("CAIRN_S3_ADDRESSING"), setting(profile, "s3.addressing_style")});
  if (options.addressing != S3Addressing::kAuto) {
    return options.addressing == S3Addressing::kPath;
  }
  if (text == "path" || text == "virtual") return text == "path";
  if (!text.empty() && text != "auto") {
    throw UsageError("the S3 addressing style must be auto, path or virtual, given: \"" + text +
                     "\"");
  }
  return !is_amazon || !is_name_of_host(options.bucket);
}

// Uses AWS's own names for this setting.
bool with_checksums(const Profile& profile) {
  const std::string text =
      lower_case(first_nonempty({environment("AWS_REQUEST_CHECKSUM_CALCULATION"),
                                 setting(profile, "request_checksum_calculation")}));
  if (text.empty() || text == "when_supported" || text == "when_required") {
    return text != "when_required";
  }
  throw UsageError(
      "AWS_REQUEST_CHECKSUM_CALCULATION must be when_supported or when_required, given: \"" +
      printable_line(text) + "\"");
}

bool unsigned_payload(const S3Options& options) {
  const std::string text = environment("CAIRN_S3_UNSIGNED_PAYLOAD");
  if (text.empty() || text == "0") return options.unsigned_payload;
  if (text == "1") return true;
  throw UsageError("CAIRN_S3_UNSIGNED_PAYLOAD must be 0 or 1, given: \"" + printable_line(text) +
                   "\"");
}

std::string endpoint_of(const S3Options& options, const Profile& profile) {
  return first_nonempty({options.endpoint_url, environment("S3_ENDPOINT_URL"),
                         environment("AWS_ENDPOINT_URL_S3"), environment("AWS_ENDPOINT_URL"),
                         setting(profile, "s3.endpoint_url"), setting(profile, "endpoint_url")});
}

std::string identity_of(const Config& config, const std::string& keys) {
  const S3Options& o = config.options;
  return config_identity({o.bucket, o.prefix, o.region, o.endpoint_url, o.profile, o.canned_acl,
                          o.server_side_encryption, o.sse_kms_key_id,
                          std::to_string(config.settings.retries.policy.attempts),
                          config.settings.ca_file, config.is_path_style ? "path" : "virtual",
                          config.with_checksums ? "" : "without checksums",
                          o.unsigned_payload ? "unsigned payload" : "", keys});
}

}  // namespace

Config resolve_config(const S3Options& options, const Outside& outside) {
  check_bucket(bucket_options(options), kRules);
  if (options.access_key_id.empty() != options.secret_access_key.empty()) {
    throw UsageError("an S3 store needs access_key_id and secret_access_key, or neither");
  }
  const Profile profile = load_profile(options.profile);
  Config config;
  config.options = options;
  S3Options& o = config.options;
  o.region = first_nonempty({options.region, environment("AWS_REGION"),
                             environment("AWS_DEFAULT_REGION"), setting(profile, "region")});
  o.canned_acl = first_nonempty({options.canned_acl, environment("S3_CANNED_ACL")});
  o.endpoint_url = endpoint_of(options, profile);
  o.unsigned_payload = unsigned_payload(options);
  if (!o.endpoint_url.empty()) {
    config.endpoint = parse_http_url(o.endpoint_url, "the S3 endpoint (S3_ENDPOINT_URL)");
  }
  config.is_path_style = path_style(options, o.endpoint_url.empty(), profile);
  config.with_checksums = with_checksums(profile);
  config.settings = bucket_settings(bucket_options(options), outside);
  config.settings.ca_file = first_nonempty(
      {environment("AWS_CA_BUNDLE"), setting(profile, "ca_bundle"), config.settings.ca_file});
  const FoundCredentials found = find_credentials(
      {.given = {options.access_key_id, options.secret_access_key, options.session_token},
       .profile = profile,
       .is_profile_given = !options.profile.empty(),
       .region = o.region,
       .ca_file = config.settings.ca_file,
       .client = config.settings.client,
       .retries = config.settings.retries});
  config.credentials = found.source;
  config.identity = identity_of(config, found.identity);
  o.access_key_id.clear();
  o.secret_access_key.clear();
  o.session_token.clear();
  return config;
}

}  // namespace cairn::s3

namespace cairn {

std::shared_ptr<ObjectStore> s3_store(const S3Options& options) {
  return s3::make_s3_store(s3::resolve_config(options));
}

}  // namespace cairn
