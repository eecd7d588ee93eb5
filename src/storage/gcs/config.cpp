#include "storage/gcs/config.h"

#include "cairn/error.h"

#include "core/environment.h"
#include "io/file.h"
#include "net/url.h"
#include "storage/gcs/token.h"

namespace cairn::gcs {
namespace {

constexpr const char* kGoogle = "https://storage.googleapis.com";
constexpr BucketRules kRules = {.store = "a gs:// store", .example = "gs://bucket/name"};

BucketOptions bucket_options(const GcsOptions& options) {
  return {options.bucket, options.part_bytes, options.parallel_requests,
          options.attempts.value_or(0)};
}

Url endpoint_of(const GcsOptions& options) {
  std::string text = options.endpoint_url;
  if (text.empty()) text = environment("STORAGE_EMULATOR_HOST");
  if (text.empty()) text = kGoogle;
  if (text.find("://") == std::string::npos) text = "http://" + text;
  return parse_http_url(text, "the gs:// endpoint (STORAGE_EMULATOR_HOST)");
}

// The file of a user who logged in with gcloud; "" if there is none.
std::string gclouds_file() {
  std::string folder = environment("CLOUDSDK_CONFIG");
  if (folder.empty()) {
    const std::string home = environment("HOME");
    if (home.empty()) return "";
    folder = join_path(home, ".config/gcloud");
  }
  std::string path = join_path(folder, "application_default_credentials.json");
  return posix_file_system().stat(path) ? path : std::string();
}

// As in Composer, an HMAC key takes precedence. The parts of a key must come from one place.
void find_keys(Config& config) {
  GcsOptions& options = config.options;
  if (options.key.empty() && options.secret.empty() && options.credentials_file.empty()) {
    options.key = environment("GCS_KEY");
    options.secret = environment("GCS_SECRET");
  }
  if (options.key.empty() != options.secret.empty()) {
    throw UsageError(std::string("an HMAC key of gs:// is two texts, and ") +
                     (options.key.empty() ? "the key is missing: set GCS_KEY (or key)"
                                          : "the secret is missing: set GCS_SECRET (or secret)"));
  }
  if (!options.key.empty()) {
    config.is_hmac = true;
    config.credentials =
        s3::fixed_credentials({.access_key = options.key, .secret_key = options.secret});
    config.identity = "key " + options.key + "\n" + options.secret;
    return;
  }
  if (config.endpoint.scheme != "https" && !is_of_this_machine(config.endpoint.host)) {
    throw UsageError(
        "the gs:// endpoint is another machine without https: a token would cross the network in "
        "the clear. Use an HMAC key, GCS_KEY and GCS_SECRET");
  }
  std::string file = options.credentials_file;
  if (file.empty()) file = environment("GOOGLE_APPLICATION_CREDENTIALS");
  if (file.empty()) file = gclouds_file();
  const TokenContext context = {config.settings.client, config.settings.retries,
                                config.settings.ca_file};
  const auto keep = [&](std::function<s3::Credentials()> fetch) {
    config.credentials =
        s3::fetched_credentials(std::move(fetch), context.retries.clock, "a token for gs://");
  };
  config.identity = "file " + file;
  if (!file.empty()) {
    keep([context, account = read_account(file)] { return fetch_token(context, account); });
  } else if (environment("NO_GCE_CHECK") != "true") {
    keep([context] { return fetch_machine_token(context); });
  } else {
    throw UsageError(
        "no credentials for gs:// were found: set GCS_KEY and GCS_SECRET (an HMAC key), or "
        "GOOGLE_APPLICATION_CREDENTIALS to the JSON file of a service account");
  }
}

}  // namespace

Config resolve_config(const GcsOptions& options, const Outside& outside) {
  check_bucket(bucket_options(options), kRules);
  if (options.key.empty() != options.secret.empty()) {
    throw UsageError("a gs:// store needs key and secret, or neither");
  }
  Config config;
  config.options = options;
  config.endpoint = endpoint_of(options);
  config.settings = bucket_settings(bucket_options(options), outside);
  find_keys(config);
  config.identity =
      config_identity({config.identity, options.bucket, options.prefix,
                       config.endpoint.origin() + config.endpoint.path, config.settings.ca_file,
                       std::to_string(config.settings.retries.policy.attempts)});
  config.options.key.clear();
  config.options.secret.clear();
  return config;
}

}  // namespace cairn::gcs

namespace cairn {

std::shared_ptr<ObjectStore> gcs_store(const GcsOptions& options) {
  return gcs::make_gcs_store(gcs::resolve_config(options));
}

}  // namespace cairn
