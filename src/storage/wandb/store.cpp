// Artifacts of W&B as a store to read from. There is no document of the requests that W&B's server
// takes, but the source of its own tools, which is public. Of that is taken what they have asked
// for years:
//
//  1. One query of GraphQL tells an artifact's files, their sizes and digests, and a signed URL for
//     each. W&B's key goes with the query only.
//  2. Bytes come from the storage behind the URL, in ranges of the version that was opened. A URL
//     that ends is asked for again.
//  3. How artifacts are made, committed and removed stands nowhere: refused.
#include "storage/wandb/store.h"

#include <algorithm>
#include <sstream>

#include "cairn/error.h"

#include "core/environment.h"
#include "core/printable.h"
#include "io/file.h"
#include "io/source_part.h"
#include "io/uri.h"
#include "storage/links.h"
#include "storage/loading_store.h"
#include "storage/pages.h"
#include "storage/remote/source.h"
#include "storage/rest/signed_remote.h"

namespace cairn::wandb {
namespace {

constexpr std::uint64_t kLongestNetrc = 1 << 20;
constexpr std::uint64_t kLongestLink = 4096;
constexpr const char* kQuery =
    "query CairnArtifact($entity: String!, $project: String!, $name: String!, $cursor: String) { "
    "project(name: $project, entityName: $entity) { artifact(name: $name) { id "
    "files(after: $cursor, first: 100) { pageInfo { endCursor hasNextPage } "
    "edges { node { name: displayName sizeBytes digest updatedAt directUrl } } } } } }";

// What a name says.
struct Named {
  std::string project;
  std::string artifact;  // with its alias
  std::string file;      // empty: the only one
};

struct File {
  std::string name;
  std::string url;
  ObjectInfo info;
};

// As Composer's logger makes names of artifacts.
std::string legal_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](char c) {
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        return !is_letter && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.';
      },
      '.');
  return name;
}

Url server_url(const WandbOptions& options) {
  const std::string text =
      first_given({options.base_url, environment("WANDB_BASE_URL"), "https://api.wandb.ai"});
  Url url = parse_http_url(text, "WANDB_BASE_URL");
  if (url.scheme != "https" && !is_of_this_machine(url.host)) {
    throw UsageError(
        "WANDB_BASE_URL must begin with https://: a key would cross the network in the clear");
  }
  return url;
}

std::string key_of(const WandbOptions& options, const Url& url) {
  const std::string given = first_given({options.api_key, environment("WANDB_API_KEY")});
  if (!given.empty()) return given;
  const std::string home = environment("HOME");
  const std::string path =
      first_given({environment("NETRC"), home.empty() ? "" : join_path(home, ".netrc")});
  std::string found;
  try {
    if (!path.empty()) {
      const SharedBytes bytes = read_start(*posix_file_system().open(path), kLongestNetrc);
      found = netrc_password(std::string(as_text(bytes.view)), url.host);
    }
  } catch (const NotFoundError&) {
    // then there is none
  }
  if (!found.empty()) return found;
  throw UsageError(
      "no key for W&B was found: set WANDB_API_KEY, or let `wandb login` write it to "
      "~/.netrc");
}

class WandbStore final : public LoadingStore, public std::enable_shared_from_this<WandbStore> {
 public:
  WandbStore(WandbOptions options, const RemoteSettings& settings)
      : options_(std::move(options)), settings_(settings) {
    if (options_.entity.empty()) {
      throw UsageError("a W&B place needs an entity: wandb://ENTITY/PROJECT/ARTIFACT:ALIAS");
    }
  }

  std::string describe(const std::string& name) const override {
    return "wandb://" + options_.entity + (name.empty() ? "" : "/" + name);
  }

  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    if (const auto file = find(parse(name))) return file->info;
    const auto target = link_of(name);
    if (!target) return std::nullopt;
    if (!follow) return ObjectInfo{.type = ObjectInfo::Type::kPointer, .version = *target};
    const auto file = find(parse(*target));
    return file ? std::optional(file->info) : std::nullopt;
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    if (auto source = open_file(name)) return source;
    const auto target = link_of(name);
    if (!target) {
      throw NotFoundError("there is no artifact " + describe(name) +
                          ": check its project, name and alias");
    }
    if (auto source = open_file(*target)) return source;
    throw NotFoundError(describe(name) + " points at " + describe(*target) +
                        ", which is not there");
  }

  std::optional<Pointer> read_pointer(const std::string& name) override {
    const auto target = link_of(name);
    if (!target) return std::nullopt;
    return Pointer{.target = *target, .version = *target};
  }

 private:
  std::string why_loading_only() const override {
    return "W&B documents no requests for that. Save elsewhere, or log the file with W&B's own "
           "tools; artifacts are loaded by their names";
  }

  Named parse(const std::string& name) const {
    const std::size_t slash = std::min(name.find('/'), name.size());
    const std::string rest = name.substr(std::min(slash + 1, name.size()));
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::size_t behind = std::min(rest.find('/', colon), rest.size());
    Named named = {.project = name.substr(0, slash),
                   .artifact = legal_name(rest.substr(0, colon)),
                   .file = rest.substr(std::min(behind + 1, rest.size()))};
    if (named.project.empty() || named.artifact.empty()) {
      throw UsageError(describe(name) +
                       " names no artifact: it must be wandb://ENTITY/PROJECT/ARTIFACT:ALIAS, or "
                       "wandb://ENTITY/PROJECT/ARTIFACT:ALIAS/FILE");
    }
    const std::string alias = colon < behind ? rest.substr(colon + 1, behind - colon - 1) : "";
    named.artifact += ":" + (alias.empty() ? "latest" : alias);
    return named;
  }

  RestRemote& api() {
    const std::scoped_lock lock(mutex_);
    if (api_ == nullptr) {
      const Url url = server_url(options_);
      api_ = std::make_unique<RestRemote>(
          RestServer{.url = url,
                     .authorization = fixed_authorization(basic("api", key_of(options_, url))),
                     .keys = "WANDB_API_KEY",
                     .settings = settings_},
          "/", "W&B's ");
    }
    return *api_;
  }

  // One page of the artifact's files; null when there is no such artifact.
  nlohmann::json ask(const Named& named, const std::string& cursor) {
    nlohmann::json variables = {
        {"entity", options_.entity}, {"project", named.project}, {"name", named.artifact}};
    if (!cursor.empty()) variables["cursor"] = cursor;
    const std::string doing = "looking for " + printable_line(named.artifact) + " by";
    const nlohmann::json answer =
        api().post("graphql", {{"query", kQuery}, {"variables", variables}}, doing);
    const nlohmann::json errors = array_of(answer, "errors");
    if (!errors.empty()) {
      throw StorageError(doing + " W&B: " + api().told(text_of(errors.front(), "message")), 200);
    }
    const nlohmann::json artifact =
        object_of(object_of(object_of(answer, "data"), "project"), "artifact");
    return artifact.empty() ? nlohmann::json() : object_of(artifact, "files");
  }

  // nullopt when there is no such artifact, or no such file in it.
  std::optional<File> find(const Named& named) {
    std::vector<File> found;
    Pages pages(describe(named.project + "/" + named.artifact));
    for (bool goes_on = true; goes_on;) {
      const nlohmann::json files = ask(named, pages.now());
      if (files.is_null()) return std::nullopt;
      for (const nlohmann::json& edge : array_of(files, "edges")) {
        File file = file_in(object_of(edge, "node"));
        if (named.file.empty() || file.name == named.file) found.push_back(std::move(file));
      }
      const nlohmann::json page = object_of(files, "pageInfo");
      const std::string next = flag_of(page, "hasNextPage") ? text_of(page, "endCursor") : "";
      goes_on = pages.go_on(next);
    }
    if (found.size() > 1) {
      throw UsageError("the artifact " + describe(named.project + "/" + named.artifact) + " has " +
                       std::to_string(found.size()) + " files: say which, as " +
                       describe(named.project + "/" + named.artifact + "/" + found[0].name));
    }
    if (found.empty()) return std::nullopt;
    return std::move(found.front());
  }

  static File file_in(const nlohmann::json& node) {
    return {.name = text_of(node, "name"),
            .url = text_of(node, "directUrl"),
            .info = {.size = number_of(node, "sizeBytes"),
                     .modified = parse_iso_time(text_of(node, "updatedAt")).value_or(NetTime()),
                     .version = text_of(node, "digest")}};
  }

  std::shared_ptr<const ByteSource> open_file(const std::string& name) {
    const Named named = parse(name);
    const auto file = find(named);
    if (!file) return nullptr;
    const auto again = [self = shared_from_this(), named, file = *file] {
      const auto now = self->find(named);
      const bool is_same = now && now->info.version == file.info.version;
      // "latest" may be another one by now.
      return is_same ? SignedUrl{.url = now->url} : SignedUrl();
    };
    const auto remote = std::make_shared<SignedRemote>(
        settings_,
        SignedRemote::What{
            .name = describe(name), .signer = "W&B", .first = {.url = file->url}, .fetch = again});
    auto source = open_object(remote, "");
    const std::uint64_t size = source == nullptr ? 0 : source->size();
    if (source == nullptr || size != file->info.size) {
      throw StorageError(describe(name) + ": W&B says that it has " +
                             std::to_string(file->info.size) +
                             " bytes, and the storage behind it " + "has " + std::to_string(size),
                         0);
    }
    return source;
  }

  // What a file NAME.symlink of Composer's points at, in the same project.
  std::optional<std::string> link_of(const std::string& name) {
    const Named named = parse(name);
    const std::string link =
        name.ends_with(kLinkFile) ? name : without_alias(name) + std::string(kLinkFile);
    if (!named.file.empty()) return std::nullopt;
    const auto source = open_file(link);
    if (source == nullptr || source->size() > kLongestLink) return std::nullopt;
    const SharedBytes bytes = read_all(*source);
    std::string text(as_text(bytes.view));
    while (text.ends_with('\n') || text.ends_with('\r'))
      text.pop_back();
    const bool is_name = !text.empty() && printable_line(text) == text;
    return is_name ? std::optional(named.project + "/" + text) : std::nullopt;
  }

  static std::string without_alias(const std::string& name) {
    return name.substr(0, name.find(':'));
  }

  const WandbOptions options_;
  const RemoteSettings settings_;
  std::mutex mutex_;  // of what is made when it is first needed:
  std::unique_ptr<RestRemote> api_;
};

}  // namespace

std::string netrc_password(const std::string& text, const std::string& machine) {
  std::istringstream words(text);
  std::string word;
  bool is_meant = false;
  while (words >> word) {
    if (word == "machine") {
      is_meant = static_cast<bool>(words >> word) && word == machine;
    } else if (word == "default") {
      is_meant = false;
    } else if (word == "password" && words >> word && is_meant) {
      return word;
    }
  }
  return {};
}

std::shared_ptr<ObjectStore> make_wandb_store(const WandbOptions& options,
                                              const RemoteSettings& settings) {
  return std::make_shared<WandbStore>(options, settings);
}

std::shared_ptr<ObjectStore> wandb_store_of(const std::string& root) {
  return wandb_store({.entity = split_uri(root).authority});
}

}  // namespace cairn::wandb

namespace cairn {

std::shared_ptr<ObjectStore> wandb_store(const WandbOptions& options) {
  RemoteSettings settings;
  settings.client = shared_http_client();
  settings.ca_file = environment("SSL_CERT_FILE");
  return wandb::make_wandb_store(options, settings);
}

}  // namespace cairn
