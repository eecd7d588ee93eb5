#include "storage/azure/config.h"

#include <algorithm>
#include <map>

#include "cairn/error.h"

#include "core/environment.h"
#include "net/digest.h"
#include "net/url.h"

namespace cairn::azure {
namespace {

// The largest part is Azure's limit for a block.
constexpr BucketRules kRules = {.store = "an Azure store",
                                .example = "azure://container/name",
                                .bucket = "container",
                                .least_part = 1 << 20,
                                .most_part = std::uint64_t{4000} << 20};

// Azurite's well-known account.
constexpr const char* kDevelopmentEndpoint = "http://127.0.0.1:10000/devstoreaccount1";
constexpr const char* kDevelopmentAccount = "devstoreaccount1";
constexpr const char* kDevelopmentKey =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

using Settings = std::map<std::string, std::string>;

// "AccountName=a;AccountKey=b==". No message may contain the values.
Settings parse_connection_string(const std::string& text) {
  Settings settings;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError(
          "the connection string of Azure (AZURE_STORAGE_CONNECTION_STRING) must be NAME=VALUE "
          "pairs with semicolons between them, as the portal shows it");
    }
    settings[part.substr(0, equals)] = part.substr(equals + 1);
  }
  if (settings["UseDevelopmentStorage"] == "true") {
    settings = {{"AccountName", kDevelopmentAccount},
                {"AccountKey", kDevelopmentKey},
                {"BlobEndpoint", kDevelopmentEndpoint}};
  }
  return settings;
}

std::string endpoint_in(const Settings& settings) {
  const auto of = [&](const char* name, const char* otherwise) {
    const auto found = settings.find(name);
    return found == settings.end() || found->second.empty() ? otherwise : found->second;
  };
  const std::string given = of("BlobEndpoint", "");
  const std::string account = of("AccountName", "");
  if (!given.empty() || account.empty()) return given;
  return of("DefaultEndpointsProtocol", "https") + "://" + account + ".blob." +
         of("EndpointSuffix", "core.windows.net");
}

// Settings that come from one place: an account's keys are not mixed with another account's name.
struct Found {
  std::string account = {};
  std::string key = {};
  std::string sas = {};
  std::string endpoint = {};

  bool can_sign() const { return !sas.empty() || (!account.empty() && !key.empty()); }
};

Found found_in(const std::string& connection_string) {
  Settings settings = parse_connection_string(connection_string);
  return {.account = settings["AccountName"],
          .key = settings["AccountKey"],
          .sas = settings["SharedAccessSignature"],
          .endpoint = endpoint_in(settings)};
}

std::string variable(const char* composers, const char* azures) {
  const std::string value = environment(composers);
  return value.empty() ? environment(azures) : value;
}

Found find_keys(const AzureOptions& options) {
  Found found{.account = options.account_name,
              .key = options.account_key,
              .sas = options.sas_token,
              .endpoint = options.endpoint_url};
  const std::string server = environment("AZURE_STORAGE_SERVICE_ENDPOINT");
  if (found.can_sign()) {
    if (found.endpoint.empty()) found.endpoint = server;
    return found;
  }
  const bool is_given = !options.connection_string.empty();
  const std::string text =
      is_given ? options.connection_string : environment("AZURE_STORAGE_CONNECTION_STRING");
  Found other;
  if (!text.empty()) {
    other = found_in(text);
  } else {
    other = {.account = variable("AZURE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"),
             .key = variable("AZURE_ACCOUNT_ACCESS_KEY", "AZURE_STORAGE_KEY"),
             .sas = environment("AZURE_STORAGE_SAS_TOKEN"),
             .endpoint = server};
  }
  if (found.account.empty()) found.account = other.account;
  if (found.key.empty()) found.key = other.key;
  if (found.sas.empty() && options.account_key.empty()) found.sas = other.sas;
  if (found.endpoint.empty()) found.endpoint = other.endpoint;
  return found;
}

BucketOptions bucket_options(const AzureOptions& options) {
  return {options.container, options.part_bytes, options.parallel_requests,
          options.attempts.value_or(0)};
}

void check_found(const Found& found, const std::string& container) {
  const bool has_server = !found.account.empty() || !found.endpoint.empty();
  if (found.can_sign() && has_server) return;
  throw UsageError("azure://" + container +
                   ": no account and key to sign with: set AZURE_ACCOUNT_NAME and "
                   "AZURE_ACCOUNT_ACCESS_KEY (or AZURE_STORAGE_SAS_TOKEN), or "
                   "AZURE_STORAGE_CONNECTION_STRING");
}

std::string identity_of(const Config& config) {
  return config_identity({config.container, config.prefix, config.endpoint.origin(),
                          config.endpoint.path, config.key.account, config.key.key, config.sas,
                          std::to_string(config.settings.retries.policy.attempts),
                          config.settings.ca_file});
}

}  // namespace

Config resolve_config(const AzureOptions& options, const Outside& outside) {
  check_bucket(bucket_options(options), kRules);
  const Found found = find_keys(options);
  check_found(found, options.container);
  Config config;
  config.container = options.container;
  config.prefix = options.prefix;
  config.endpoint =
      parse_http_url(found.endpoint.empty() ? "https://" + found.account + ".blob.core.windows.net"
                                            : found.endpoint,
                     "the endpoint of Azure (AZURE_STORAGE_SERVICE_ENDPOINT)");
  while (config.endpoint.path.ends_with('/'))
    config.endpoint.path.pop_back();
  config.sas = found.sas.starts_with('?') ? found.sas.substr(1) : found.sas;
  const bool is_in_the_clear =
      config.endpoint.scheme != "https" && !is_of_this_machine(config.endpoint.host);
  if (!config.sas.empty() && is_in_the_clear) {
    throw UsageError("azure://" + options.container +
                     ": the endpoint is another machine without https: the token would cross the "
                     "network in the clear. Use https, or the account's key");
  }
  if (config.sas.empty()) {
    const auto key = base64_decoded(found.key);
    if (!key || key->empty()) {
      throw UsageError(
          "azure://" + options.container +
          ": the account's key (AZURE_ACCOUNT_ACCESS_KEY) is no base64: copy it whole, "
          "as the portal shows it");
    }
    config.key = {.account = found.account, .key = *key};
  }
  config.settings = bucket_settings(bucket_options(options), outside);
  config.settings.has_suffix_ranges = false;
  config.identity = identity_of(config);
  return config;
}

}  // namespace cairn::azure

namespace cairn {

std::shared_ptr<ObjectStore> azure_store(const AzureOptions& options) {
  return azure::make_azure_store(azure::resolve_config(options));
}

}  // namespace cairn
