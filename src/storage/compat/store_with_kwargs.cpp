#include "storage/compat/store_with_kwargs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>

#include "cairn/error.h"
#include "cairn/storage/azure.h"
#include "cairn/storage/gcs.h"
#include "cairn/storage/oci.h"
#include "cairn/storage/s3.h"
#include "cairn/storage/sftp.h"

#include "core/environment.h"
#include "core/text/printable.h"
#include "io/uri.h"
#include "storage/place.h"
#include "storage/sftp/config.h"
#include "storage/uri_store.h"

namespace cairn {
namespace {

// The arguments, including those in provider_kwargs.
using Texts = std::map<std::string, std::string>;

template <class Options>
struct Kwarg {
  std::string_view name;
  std::string Options::*field;
};

// The arguments of Composer's S3ObjectStore and of its configuration objects.
constexpr auto kS3Kwargs = std::to_array<Kwarg<S3Options>>({
    {"bucket", &S3Options::bucket},
    {"prefix", &S3Options::prefix},
    {"region_name", &S3Options::region},
    {"region", &S3Options::region},
    {"endpoint_url", &S3Options::endpoint_url},
    {"profile_name", &S3Options::profile},
    {"profile", &S3Options::profile},
    {"aws_access_key_id", &S3Options::access_key_id},
    {"aws_secret_access_key", &S3Options::secret_access_key},
    {"aws_session_token", &S3Options::session_token},
    {"canned_acl", &S3Options::canned_acl},
    {"server_side_encryption", &S3Options::server_side_encryption},
    {"sse_kms_key_id", &S3Options::sse_kms_key_id},
});

// The arguments of Composer's GCSObjectStore, and the settings that it takes from the environment.
constexpr auto kGcsKwargs = std::to_array<Kwarg<GcsOptions>>({
    {"bucket", &GcsOptions::bucket},
    {"prefix", &GcsOptions::prefix},
    {"key", &GcsOptions::key},
    {"secret", &GcsOptions::secret},
    {"credentials_file", &GcsOptions::credentials_file},
    {"endpoint_url", &GcsOptions::endpoint_url},
});

// The arguments of Composer's OCIObjectStore, and the settings that it takes from Oracle's file.
constexpr auto kOciKwargs = std::to_array<Kwarg<OciOptions>>({
    {"bucket", &OciOptions::bucket},
    {"prefix", &OciOptions::prefix},
    {"config_file", &OciOptions::config_file},
    {"profile", &OciOptions::profile},
    {"region", &OciOptions::region},
    {"endpoint_url", &OciOptions::endpoint_url},
});

// Azure's own names. Composer uses libcloud's names instead: kAzureOthers.
constexpr auto kAzureKwargs = std::to_array<Kwarg<AzureOptions>>({
    {"container", &AzureOptions::container},
    {"prefix", &AzureOptions::prefix},
    {"account_name", &AzureOptions::account_name},
    {"account_key", &AzureOptions::account_key},
    {"sas_token", &AzureOptions::sas_token},
    {"connection_string", &AzureOptions::connection_string},
    {"endpoint_url", &AzureOptions::endpoint_url},
});
constexpr std::array<std::string_view, 3> kAzureOthers = {"provider", "key_environ",
                                                          "secret_environ"};

// The arguments of Composer's SFTPObjectStore.
constexpr auto kSftpKwargs = std::to_array<Kwarg<SftpOptions>>({
    {"host", &SftpOptions::host},
    {"username", &SftpOptions::user},
    {"key_filename", &SftpOptions::key_file},
    {"known_hosts_filename", &SftpOptions::known_hosts_file},
    {"cwd", &SftpOptions::folder},
});
constexpr std::array<std::string_view, 4> kSftpOthers = {
    "port", "key_filename_environ", "known_hosts_filename_environ", "missing_host_key_policy"};

// Paramiko's names for what ssh does with a host that it does not know.
constexpr std::pair<std::string_view, const char*> kHostKeyPolicies[] = {
    {"RejectPolicy", "yes"}, {"AutoAddPolicy", "accept-new"}, {"WarningPolicy", "no"}};

// The arguments of Composer's LibcloudObjectStore, including those in its provider_kwargs.
constexpr auto kLibcloudKwargs = std::to_array<Kwarg<LibcloudOptions>>({
    {"provider", &LibcloudOptions::provider},
    {"container", &LibcloudOptions::container},
    {"key_environ", &LibcloudOptions::key_environ},
    {"secret_environ", &LibcloudOptions::secret_environ},
    {"key", &LibcloudOptions::key},
    {"secret", &LibcloudOptions::secret},
    {"region", &LibcloudOptions::region},
    {"host", &LibcloudOptions::host},
});
constexpr std::array<std::string_view, 2> kLibcloudOthers = {"port", "secure"};

[[noreturn]] void refuse_kwargs(const std::string& bucket_uri, const std::string& why) {
  throw UsageError("backend_kwargs of " + printable_line(shown_place(bucket_uri)) + ": " + why);
}

// Sets the options that have a field, and returns the others, all of which must be in `known`.
// Throws UsageError, which names an unknown argument and all known ones.
template <class Options, class Kwargs>
Texts fill_options(Options& options, const Kwargs& fields, const Texts& kwargs,
                   const std::string& bucket_uri, std::span<const std::string_view> known = {}) {
  Texts others;
  for (const auto& [name, value] : kwargs) {
    const auto row = std::ranges::find(fields, name, &Kwarg<Options>::name);
    if (row != fields.end()) {
      options.*(row->field) = value;
      continue;
    }
    if (std::ranges::find(known, name) == known.end()) {
      std::string names;
      for (const auto& field : fields)
        names += (names.empty() ? "" : ", ") + std::string(field.name);
      for (const std::string_view one : known)
        names += ", " + std::string(one);
      refuse_kwargs(bucket_uri, "unknown \"" + printable_line(name) + "\"; known are " + names);
    }
    others.insert({name, value});
  }
  return others;
}

// The value of the variable that the argument `name` names; "" if there is no such argument.
std::string named_variable(const std::string& bucket_uri, const Texts& kwargs, const char* name) {
  const auto variable = kwargs.find(name);
  if (variable == kwargs.end()) return {};
  std::string value = environment(variable->second.c_str());
  if (!value.empty()) return value;
  // The variable's name is not repeated: it may be the secret itself.
  refuse_kwargs(bucket_uri, std::string(name) +
                                " must be the name of an environment variable; no variable of the "
                                "given name is set");
}

int port_in(const std::string& bucket_uri, const std::string& text) {
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, port);
  if (error == std::errc() && stopped == end && port > 0) return port;
  refuse_kwargs(bucket_uri, "port \"" + printable_line(text) + "\" is no number above 0");
}

// Throws UsageError if an argument is nested wrongly, not nested although it must be, or given
// twice.
Texts flattened(const std::string& bucket_uri, const BackendKwargs& kwargs) {
  const bool has_provider = split_uri(bucket_uri).scheme == "libcloud";
  Texts texts;
  const auto add = [&](const std::string& name, const std::string& text) {
    if (texts.emplace(name, text).second) return;
    refuse_kwargs(bucket_uri, "\"" + printable_line(name) + "\" is there twice");
  };
  for (const auto& [name, kwarg] : kwargs) {
    const bool is_of_provider = has_provider && name == "provider_kwargs";
    if (is_of_provider != (kwarg.nested() != nullptr)) {
      refuse_kwargs(bucket_uri, "\"" + printable_line(name) + "\" is " +
                                    (is_of_provider ? "several texts by name, not one text"
                                                    : "one text, not several by name"));
    }
    if (!is_of_provider) {
      add(name, *kwarg.text());
      continue;
    }
    for (const auto& [key, text] : *kwarg.nested())
      add(key, text);
  }
  return texts;
}

std::shared_ptr<ObjectStore> s3_of(const std::string& bucket_uri, const Texts& kwargs) {
  S3Options options = {.bucket = split_uri(bucket_uri).authority};
  fill_options(options, kS3Kwargs, kwargs, bucket_uri);
  return s3_store(options);
}

std::shared_ptr<ObjectStore> gcs_of(const std::string& bucket_uri, const Texts& kwargs) {
  GcsOptions options = {.bucket = split_uri(bucket_uri).authority};
  fill_options(options, kGcsKwargs, kwargs, bucket_uri);
  return gcs_store(options);
}

std::shared_ptr<ObjectStore> oci_of(const std::string& bucket_uri, const Texts& kwargs) {
  OciOptions options = {.bucket = split_uri(bucket_uri).authority};
  fill_options(options, kOciKwargs, kwargs, bucket_uri);
  return oci_store(options);
}

std::shared_ptr<ObjectStore> azure_of(const std::string& bucket_uri, const Texts& kwargs) {
  AzureOptions options = {.container = split_uri(bucket_uri).authority};
  const Texts others = fill_options(options, kAzureKwargs, kwargs, bucket_uri, kAzureOthers);
  const auto provider = others.find("provider");
  if (provider != others.end() && provider->second != "AZURE_BLOBS") {
    refuse_kwargs(bucket_uri, "the provider of azure:// is AZURE_BLOBS");
  }
  const std::string key = named_variable(bucket_uri, others, "key_environ");
  const std::string secret = named_variable(bucket_uri, others, "secret_environ");
  if (!key.empty()) options.account_name = key;
  if (!secret.empty()) options.account_key = secret;
  return azure_store(options);
}

// An argument that the place already contains must not be given again.
std::shared_ptr<ObjectStore> sftp_of(const std::string& bucket_uri, const Texts& kwargs) {
  if (kwargs.contains("password")) {
    refuse_kwargs(bucket_uri, "ssh takes no password; use a key (key_filename)");
  }
  SftpOptions options = sftp::options_of(split_uri(bucket_uri).root());
  for (const auto& [name, is_said] :
       {std::pair("host", !options.host.empty()), std::pair("username", !options.user.empty()),
        std::pair("port", options.port.has_value())}) {
    if (is_said && kwargs.contains(name)) {
      refuse_kwargs(bucket_uri, std::string(name) + " is in the place already");
    }
  }
  const Texts others = fill_options(options, kSftpKwargs, kwargs, bucket_uri, kSftpOthers);
  if (others.contains("port")) options.port = port_in(bucket_uri, others.at("port"));
  if (options.key_file.empty()) {
    options.key_file = named_variable(bucket_uri, others, "key_filename_environ");
  }
  if (options.known_hosts_file.empty()) {
    options.known_hosts_file = named_variable(bucket_uri, others, "known_hosts_filename_environ");
  }
  if (const auto policy = others.find("missing_host_key_policy"); policy != others.end()) {
    const auto* row = std::ranges::find(kHostKeyPolicies, policy->second,
                                        [](const auto& known) { return known.first; });
    if (row == std::end(kHostKeyPolicies)) {
      refuse_kwargs(bucket_uri,
                    "missing_host_key_policy is RejectPolicy, AutoAddPolicy or WarningPolicy");
    }
    options.ssh_arguments = {"-o", std::string("StrictHostKeyChecking=") + row->second};
  }
  return sftp_store(options);
}

std::shared_ptr<ObjectStore> libcloud_of(const std::string& bucket_uri, const Texts& kwargs) {
  return libcloud_store(libcloud_options(bucket_uri, kwargs));
}

}  // namespace

LibcloudOptions libcloud_options(const std::string& bucket_uri, const Texts& kwargs) {
  LibcloudOptions options;
  options.container = split_uri(bucket_uri).authority;
  const Texts others = fill_options(options, kLibcloudKwargs, kwargs, bucket_uri, kLibcloudOthers);
  if (others.contains("port")) options.port = port_in(bucket_uri, others.at("port"));
  if (const auto secure = others.find("secure"); secure != others.end()) {
    if (secure->second != "true" && secure->second != "false") {
      refuse_kwargs(bucket_uri, "secure is \"true\" or \"false\"");
    }
    options.secure = secure->second == "true";
  }
  return options;
}

std::shared_ptr<ObjectStore> store_with_kwargs(const std::string& bucket_uri,
                                               const BackendKwargs& kwargs) {
  using Make = std::shared_ptr<ObjectStore> (*)(const std::string&, const Texts&);
  static const std::map<std::string, Make> kMakers = {
      {"azure", azure_of}, {"gs", gcs_of}, {"libcloud", libcloud_of},
      {"oci", oci_of},     {"s3", s3_of},  {"sftp", sftp_of}};
  const Uri uri = split_uri(bucket_uri);
  const auto make = kMakers.find(uri.scheme);
  if (make == kMakers.end()) {
    std::string schemes;
    for (const auto& [scheme, unused] : kMakers) {
      schemes += (schemes.empty() ? "" : ", ") + scheme + "://";
    }
    throw UsageError("backend_kwargs are for buckets of " + schemes + ", not for \"" +
                     printable_line(shown_place(bucket_uri)) +
                     "\"; make the store itself, and give it as `store`");
  }
  const std::string problem = place_problem(bucket_uri);
  if (!problem.empty()) throw UsageError(problem);
  return uri_store(uri.root(), make->second(bucket_uri, flattened(bucket_uri, kwargs)));
}

}  // namespace cairn
