#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "cairn/error.h"
#include "cairn/storage/azure.h"
#include "cairn/storage/gcs.h"
#include "cairn/storage/libcloud.h"
#include "cairn/storage/s3.h"

#include "core/environment.h"
#include "storage/compat/store_with_kwargs.h"
#include "storage/network_stores.h"

namespace cairn {
namespace {

// A provider that speaks S3. libcloud has a separate name for each of Amazon's regions.
struct S3Provider {
  std::string_view name;
  std::string_view region = {};
  bool needs_host = false;
};

constexpr std::array kS3Providers = {
    S3Provider{"s3"},
    S3Provider{"s3_us_east2", "us-east-2"},
    S3Provider{"s3_us_west", "us-west-1"},
    S3Provider{"s3_us_west_oregon", "us-west-2"},
    S3Provider{"s3_us_gov_east", "us-gov-east-1"},
    S3Provider{"s3_us_gov_west", "us-gov-west-1"},
    S3Provider{"s3_ca_central", "ca-central-1"},
    S3Provider{"s3_sa_east", "sa-east-1"},
    S3Provider{"s3_eu_west", "eu-west-1"},
    S3Provider{"s3_eu_west2", "eu-west-2"},
    S3Provider{"s3_eu_central", "eu-central-1"},
    S3Provider{"s3_eu_north1", "eu-north-1"},
    S3Provider{"s3_ap_south", "ap-south-1"},
    S3Provider{"s3_ap_southeast", "ap-southeast-1"},
    S3Provider{"s3_ap_southeast2", "ap-southeast-2"},
    S3Provider{"s3_ap_northeast", "ap-northeast-1"},
    S3Provider{"s3_ap_northeast1", "ap-northeast-1"},
    S3Provider{"s3_ap_northeast2", "ap-northeast-2"},
    S3Provider{"minio", {}, true},
    S3Provider{"rgw", {}, true},
    S3Provider{"s3_rgw", {}, true},
    S3Provider{"ovh", {}, true},
    S3Provider{"scaleway", {}, true},
    S3Provider{"digitalocean_spaces", {}, true},
};

// Functions that make the stores: new stores, or kept ones.
struct Makers {
  std::shared_ptr<ObjectStore> (*s3)(const S3Options&);
  std::shared_ptr<ObjectStore> (*gcs)(const GcsOptions&);
  std::shared_ptr<ObjectStore> (*azure)(const AzureOptions&);
};

struct OtherProvider {
  std::string_view name;
  std::string_view instead;
};

constexpr std::array kOtherProviders = {
    OtherProvider{"backblaze_b2", "its S3 interface: provider s3_rgw with the host of your region"},
    OtherProvider{"oss", "its S3 interface: provider s3_rgw with the host of your region"},
    OtherProvider{"local", "a path, without a store"},
};

// The value of a variable. No message contains it.
std::string from_environment(const std::string& variable, const char* option) {
  if (variable.empty()) return {};
  std::string value = environment(variable.c_str());
  if (!value.empty()) return value;
  // The variable's name is not repeated either: it may be the secret itself.
  throw UsageError(std::string("libcloud store: ") + option +
                   " must be the name of an environment variable; no variable of the given name "
                   "is set");
}

[[noreturn]] void refuse_provider(const std::string& provider) {
  const auto* other = std::ranges::find(kOtherProviders, provider, &OtherProvider::name);
  if (other != kOtherProviders.end()) {
    throw UnsupportedError("libcloud store: this version does not support provider " + provider +
                           ". Use " + std::string(other->instead));
  }
  std::string known;
  for (const S3Provider& row : kS3Providers) {
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw UnsupportedError("libcloud store: provider \"" + provider + "\" is none of " + known +
                         ". Use a store of your own");
}

std::string endpoint_of(const LibcloudOptions& options) {
  if (options.host.empty()) return {};
  return (options.secure ? "https://" : "http://") + options.host +
         (options.port.value_or(0) == 0 ? "" : ":" + std::to_string(*options.port));
}

std::string key_of(const LibcloudOptions& options) {
  return options.key.empty() ? from_environment(options.key_environ, "key_environ") : options.key;
}

std::string secret_of(const LibcloudOptions& options) {
  return options.secret.empty() ? from_environment(options.secret_environ, "secret_environ")
                                : options.secret;
}

// The key is an HMAC key, or the address of a service account. In the second case the secret is the
// path of the service account's file.
GcsOptions google_storage(const LibcloudOptions& options) {
  GcsOptions gcs;
  gcs.bucket = options.container;
  gcs.endpoint_url = endpoint_of(options);
  const std::string key = key_of(options);
  if (key.find('@') != std::string::npos) {
    gcs.credentials_file = secret_of(options);
  } else {
    gcs.key = key;
    gcs.secret = secret_of(options);
  }
  return gcs;
}

// The key is the account's name, and the secret is the account's key. If a host is given, it is a
// server whose paths begin with the account's name.
AzureOptions azure_blobs(const LibcloudOptions& options) {
  AzureOptions azure;
  azure.container = options.container;
  azure.account_name = key_of(options);
  azure.account_key = secret_of(options);
  azure.endpoint_url = endpoint_of(options);
  if (!azure.endpoint_url.empty()) azure.endpoint_url += "/" + azure.account_name;
  return azure;
}

std::shared_ptr<ObjectStore> made_by(const Makers& makers, const LibcloudOptions& options) {
  std::string provider = options.provider;
  std::ranges::transform(provider, provider.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (provider.empty() || options.container.empty()) {
    throw UsageError("libcloud store: provider and container are required");
  }
  if (provider == "google_storage") return makers.gcs(google_storage(options));
  if (provider == "azure_blobs") return makers.azure(azure_blobs(options));
  const auto* row = std::ranges::find(kS3Providers, provider, &S3Provider::name);
  if (row == kS3Providers.end()) refuse_provider(provider);
  if (row->needs_host && options.host.empty()) {
    throw UsageError("libcloud store: provider " + provider + " needs the host of the server");
  }
  S3Options s3;
  s3.bucket = options.container;
  s3.region = options.region.empty() ? std::string(row->region) : options.region;
  s3.endpoint_url = endpoint_of(options);
  s3.access_key_id = key_of(options);
  s3.secret_access_key = secret_of(options);
  return makers.s3(s3);
}

// The arguments of Composer's store, one variable each.
std::map<std::string, std::string> kwargs_of_environment() {
  std::map<std::string, std::string> kwargs;
  for (const auto& [variable, name] :
       {std::pair("CAIRN_LIBCLOUD_PROVIDER", "provider"),
        std::pair("CAIRN_LIBCLOUD_KEY_ENVIRON", "key_environ"),
        std::pair("CAIRN_LIBCLOUD_SECRET_ENVIRON", "secret_environ"),
        std::pair("CAIRN_LIBCLOUD_REGION", "region"), std::pair("CAIRN_LIBCLOUD_HOST", "host"),
        std::pair("CAIRN_LIBCLOUD_PORT", "port"), std::pair("CAIRN_LIBCLOUD_SECURE", "secure")}) {
    std::string value = environment(variable);
    if (!value.empty()) kwargs[name] = std::move(value);
  }
  return kwargs;
}

}  // namespace

std::shared_ptr<ObjectStore> libcloud_store(const LibcloudOptions& options) {
  return made_by({.s3 = s3_store, .gcs = gcs_store, .azure = azure_store}, options);
}

std::shared_ptr<ObjectStore> kept_libcloud_store(const std::string& root) {
  LibcloudOptions options;
  try {
    options = libcloud_options(root, kwargs_of_environment());
  } catch (UsageError& e) {
    e.add_context("reading the variables CAIRN_LIBCLOUD_...");
    throw;
  }
  if (options.provider.empty()) {
    throw UsageError(root +
                     ": name libcloud's provider in CAIRN_LIBCLOUD_PROVIDER (\"s3\", \"minio\", "
                     "\"google_storage\", \"azure_blobs\", ...)");
  }
  return made_by({.s3 = kept_s3_store, .gcs = kept_gcs_store, .azure = kept_azure_store}, options);
}

std::shared_ptr<ObjectStore> ObjectStoreHparams::initialize_object() const {
  LibcloudOptions options;
  options.provider = provider;
  options.container = container;
  options.key_environ = key_environ;
  options.secret_environ = secret_environ;
  options.region = region;
  options.host = host;
  options.port = port;
  return libcloud_store(options);
}

}  // namespace cairn
