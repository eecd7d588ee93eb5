#include "storage/backend_kwargs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <string_view>
#include <vector>

#include "cairn/error.h"
#include "cairn/storage/libcloud.h"
#include "cairn/storage/s3.h"

#include "core/printable.h"
#include "io/uri.h"
#include "storage/place.h"
#include "storage/uri_store.h"

namespace cairn {
namespace {

template <class Options>
struct Kwarg {
  std::string_view name;
  std::string Options::*field;
};

// Composer's S3ObjectStore, and what its configuration objects would be used for.
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

// Composer's LibcloudObjectStore, with what is in its provider_kwargs.
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

[[noreturn]] void refuse_kwarg(const std::string& bucket_uri, const std::string& name,
                               const std::vector<std::string_view>& known) {
  std::string names;
  for (const std::string_view one : known) {
    names += (names.empty() ? "" : ", ") + std::string(one);
  }
  throw UsageError("backend_kwargs of " + bucket_uri + ": there is no \"" + printable_line(name) +
                   "\"; there are " + names);
}

// Puts what has a field there, and gives back the others.
template <class Options, class Kwargs>
BackendKwargs fill_options(Options& options, const Kwargs& fields, const BackendKwargs& kwargs) {
  BackendKwargs others;
  for (const auto& [name, value] : kwargs) {
    const auto row = std::ranges::find(fields, name, &Kwarg<Options>::name);
    if (row == fields.end()) {
      others.insert({name, value});
    } else {
      options.*(row->field) = value;
    }
  }
  return others;
}

template <class Kwargs>
std::vector<std::string_view> kwarg_names(const Kwargs& fields) {
  std::vector<std::string_view> names;
  for (const auto& field : fields) {
    names.push_back(field.name);
  }
  return names;
}

std::shared_ptr<ObjectStore> s3_of(const std::string& bucket_uri, const BackendKwargs& kwargs) {
  S3Options options = {.bucket = split_uri(bucket_uri).authority};
  const BackendKwargs others = fill_options(options, kS3Kwargs, kwargs);
  if (!others.empty()) {
    refuse_kwarg(bucket_uri, others.begin()->first, kwarg_names(kS3Kwargs));
  }
  return s3_store(options);
}

std::shared_ptr<ObjectStore> libcloud_of(const std::string& bucket_uri,
                                         const BackendKwargs& kwargs) {
  LibcloudOptions options;
  options.container = split_uri(bucket_uri).authority;
  for (const auto& [name, value] : fill_options(options, kLibcloudKwargs, kwargs)) {
    if (name == "secure" && (value == "true" || value == "false")) {
      options.secure = value == "true";
    } else if (name == "port") {
      const char* const end = value.data() + value.size();
      const auto [stopped, error] = std::from_chars(value.data(), end, options.port);
      if (error == std::errc() && stopped == end && options.port > 0) continue;
      throw UsageError("backend_kwargs of " + bucket_uri + ": port \"" + printable_line(value) +
                       "\" is no number above 0");
    } else if (name == "secure") {
      throw UsageError("backend_kwargs of " + bucket_uri + ": secure is \"true\" or \"false\"");
    } else {
      auto known = kwarg_names(kLibcloudKwargs);
      known.insert(known.end(), {"port", "secure"});
      refuse_kwarg(bucket_uri, name, known);
    }
  }
  return libcloud_store(options);
}

}  // namespace

std::shared_ptr<ObjectStore> store_with_kwargs(const std::string& bucket_uri,
                                               const BackendKwargs& kwargs) {
  using Make = std::shared_ptr<ObjectStore> (*)(const std::string&, const BackendKwargs&);
  static const std::map<std::string, Make> kMakers = {{"libcloud", libcloud_of}, {"s3", s3_of}};
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
  return uri_store(uri.root(), make->second(bucket_uri, kwargs));
}

}  // namespace cairn
