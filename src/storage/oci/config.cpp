#include "storage/oci/config.h"

#include <algorithm>

#include "cairn/error.h"

#include "core/environment.h"
#include "io/file.h"
#include "io/source_part.h"
#include "net/digest.h"
#include "storage/sections.h"

namespace cairn::oci {
namespace {

constexpr std::uint64_t kLongestFile = 1 << 20;
constexpr std::uint64_t kSmallestPart = 5 << 20;
constexpr int kTriesAtMost = 100;
constexpr int kParallelAtMost = 64;

void check_options(const OciOptions& options) {
  if (options.bucket.empty() || options.bucket.find('/') != std::string::npos) {
    throw UsageError(
        "an oci:// store needs the name of a bucket, as in oci://bucket/name; given: \"" +
        options.bucket + "\"");
  }
  if (options.part_bytes < kSmallestPart) {
    throw UsageError("part_bytes of an oci:// store must be at least " +
                     std::to_string(kSmallestPart) +
                     ", given: " + std::to_string(options.part_bytes));
  }
  if (options.parallel_requests < 1 || options.parallel_requests > kParallelAtMost) {
    throw UsageError("parallel_requests of an oci:// store must be 1 to " +
                     std::to_string(kParallelAtMost) +
                     ", given: " + std::to_string(options.parallel_requests));
  }
  if (options.attempts < 0) throw UsageError("attempts of an oci:// store cannot be negative");
}

std::string text_in(const std::string& path) {
  const SharedBytes bytes = read_start(*posix_file_system().open(path), kLongestFile);
  return std::string(as_text(bytes.view));
}

// "~/key.pem" is in the user's folder.
std::string full_path(const std::string& path) {
  return path.starts_with("~/") ? join_path(environment("HOME"), path.substr(2)) : path;
}

// A profile's fields; what it lacks is that of DEFAULT.
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
                             " signs with a session's token, which cairn does not follow; use one "
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
                       " is not there (OCI_CONFIG_FILE); oci setup config makes it");
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
  check_options(o);
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
  RemoteSettings& settings = config.settings;
  settings.retries = outside.retries;
  if (o.attempts > 0) settings.retries.policy.attempts = std::min(o.attempts, kTriesAtMost);
  settings.client = outside.client ? outside.client : shared_http_client();
  settings.ca_file = environment("SSL_CERT_FILE");
  settings.part_bytes = o.part_bytes;
  settings.has_plain_404 = false;
  settings.parallel_requests = o.parallel_requests;
  std::string text;
  for (const std::string& part : {o.bucket, config.name_space, o.prefix, o.endpoint_url,
                                  config.key_id, pem, settings.ca_file}) {
    text += part + "\n";
  }
  config.identity = hex(sha256(text));
  return config;
}

}  // namespace cairn::oci

namespace cairn {

std::shared_ptr<ObjectStore> oci_store(const OciOptions& options) {
  return oci::make_oci_store(oci::resolve_config(options));
}

}  // namespace cairn
