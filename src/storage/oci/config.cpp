#include "storage/oci/config.h"

#include <algorithm>

#include "cairn/error.h"

#include "core/environment.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/compat/sections.h"

namespace cairn::oci {
namespace {

constexpr std::uint64_t kLongestFile = 1 << 20;
constexpr BucketRules kRules = {.store = "an oci:// store", .example = "oci://bucket/name"};

BucketOptions bucket_options(const OciOptions& options) {
  return {options.bucket, options.part_bytes, options.parallel_requests,
          options.attempts.value_or(0)};
}

std::string text_in(const std::string& path) {
  const SharedBytes bytes = read_start(*posix_file_system().open(path), kLongestFile);
  return std::string(as_text(bytes.view));
}

// "~/key.pem" is in the user's home folder.
std::string full_path(const std::string& path) {
  return path.starts_with("~/") ? join_path(environment("HOME"), path.substr(2)) : path;
}

// The fields of a profile. DEFAULT supplies the fields that the profile lacks.
class OracleProfile {
 public:
  explicit OracleProfile(const OciOptions& options) : file_(options.config_file) {
    if (file_.empty()) file_ = environment("OCI_CONFIG_FILE");
    if (file_.empty()) file_ = "~/.oci/config";
    const auto sections = read(full_path(file_));
    const std::string name = options.profile.empty() ? "DEFAULT" : options.profile;
    const auto own = sections.find(name);
    if (own == sections.end()) {
      throw UsageError(file_ + " has no profile \"" + name + "\"; oci setup config makes one");
    }
    fields_ = own->second;
    if (const auto rest = sections.find("DEFAULT"); rest != sections.end()) {
      fields_.insert(rest->second.begin(), rest->second.end());
    }
    if (fields_.contains("security_token_file")) {
      throw UnsupportedError("the profile \"" + name + "\" of " + file_ +
                             " signs with a session token, which cairn does not support; use one "
                             "with an API key (oci setup config)");
    }
  }

  const std::string& file() const { return file_; }
  std::string of(const std::string& name) const {
    const auto found = fields_.find(name);
    return found == fields_.end() ? "" : found->second;
  }
  std::string needed(const std::string& name) const {
    std::string value = of(name);
    if (value.empty()) throw UsageError("the profile of " + file_ + " has no " + name);
    return value;
  }

 private:
  Sections read(const std::string& path) const {
    try {
      return read_sections(path);
    } catch (const NotFoundError&) {
      throw UsageError("no keys for oci:// were found: " + file_ +
                       " does not exist (OCI_CONFIG_FILE); oci setup config makes it");
    }
  }

  std::string file_;
  Section fields_;
};

}  // namespace

Config resolve_config(const OciOptions& options, const Outside& outside) {
  Config config;
  config.options = options;
  OciOptions& o = config.options;
  const std::size_t at = std::min(options.bucket.find('@'), options.bucket.size());
  o.bucket = options.bucket.substr(0, at);
  config.name_space = options.bucket.substr(std::min(at + 1, options.bucket.size()));
  check_bucket(bucket_options(o), kRules);
  const OracleProfile profile(options);
  config.key_id = profile.needed("tenancy") + "/" + profile.needed("user") + "/" +
                  profile.needed("fingerprint");
  const std::string key_file = full_path(profile.needed("key_file"));
  const std::string pem = text_in(key_file);
  config.key =
      std::make_shared<const RsaKey>(RsaKey::parse(pem, key_file, profile.of("pass_phrase")));
  if (o.region.empty()) o.region = profile.of("region");
  if (o.endpoint_url.empty()) o.endpoint_url = environment("CAIRN_OCI_ENDPOINT");
  if (o.endpoint_url.empty()) {
    if (o.region.empty()) throw UsageError("the profile of " + profile.file() + " has no region");
    o.endpoint_url = "https://objectstorage." + o.region + ".oraclecloud.com";
  }
  config.endpoint = parse_http_url(o.endpoint_url, "the oci:// endpoint");
  config.settings = bucket_settings(bucket_options(o), outside);
  config.settings.has_plain_404 = false;
  config.identity = config_identity({o.bucket, config.name_space, o.prefix, o.endpoint_url,
                                     config.key_id, pem, config.settings.ca_file});
  return config;
}

}  // namespace cairn::oci

namespace cairn {

std::shared_ptr<ObjectStore> oci_store(const OciOptions& options) {
  return oci::make_oci_store(oci::resolve_config(options));
}

}  // namespace cairn
