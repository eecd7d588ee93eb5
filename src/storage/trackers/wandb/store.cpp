// W&B's artifacts as a store. The requests of W&B's server are not documented, but the source of
// W&B's own tools is public. cairn uses only requests that these tools have made for years:
//
//  1. One GraphQL query reports an artifact's files, their sizes and digests, and a signed URL for
//     each. W&B's key is sent only with the queries.
//  2. Bytes come from the storage that the URL names, in ranges of the version that was opened. A
//     new URL replaces one that expires.
//  3. A write makes a new version of an artifact with one file (write.h). Earlier versions stay. A
//     write has no conditions: cairn looks first at what exists.
//  4. A removal removes the artifact with all its versions, or the one version that is named.
//  5. Names are flat: a slash becomes a dot, as in Composer's logger. The folder "run" contains the
//     names that begin with "run.". A checkpoint that is a folder has an artifact for each file.
//     The file that makes the folder a checkpoint is written last and removed first. Other folders
//     cannot be removed, since "run.pt" may be an artifact of its own.
#include "storage/trackers/wandb/store.h"

#include <algorithm>
#include <map>

#include "cairn/error.h"

#include "core/environment.h"
#include "core/existing.h"
#include "core/text/printable.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "io/threads/turns.h"
#include "io/uri.h"
#include "net/digest.h"
#include "storage/listing.h"
#include "storage/local/links.h"
#include "storage/object_folder.h"
#include "storage/pages.h"
#include "storage/remote/config.h"
#include "storage/remote/container.h"
#include "storage/remote/source.h"
#include "storage/trackers/rest/signed_remote.h"
#include "storage/trackers/tree/spooled_write.h"
#include "storage/trackers/wandb/graphql.h"
#include "storage/trackers/wandb/write.h"

namespace cairn::wandb {
namespace {

constexpr std::uint64_t kLargestFile = std::uint64_t{5} << 30;  // the limit of S3 for one request
constexpr const char* kFiles =
    "query CairnArtifact($entity: String!, $project: String!, $name: String!, $cursor: String) { "
    "project(name: $project, entityName: $entity) { artifact(name: $name) { id "
    "files(after: $cursor, first: 100) { pageInfo { endCursor hasNextPage } "
    "edges { node { name: displayName sizeBytes digest updatedAt directUrl } } } } } }";

constexpr const char* kCollections =
    "query CairnCollections($entity: String!, $project: String!, $cursor: String) { "
    "project(name: $project, entityName: $entity) { artifactCollections(after: $cursor, first: "
    "100) "
    "{ pageInfo { endCursor hasNextPage } edges { node { id name } } } } }";
constexpr const char* kIds =
    "query CairnIds($entity: String!, $project: String!, $name: String!) { "
    "project(name: $project, entityName: $entity) { artifact(name: $name) { id "
    "artifactSequence { id } } } }";
constexpr const char* kRemoveAll =
    "mutation DeleteArtifactSequence($id: ID!) { "
    "deleteArtifactSequence(input: { artifactSequenceID: $id }) { "
    "artifactCollection { __typename } } }";
constexpr const char* kRemoveOne =
    "mutation DeleteArtifact($input: DeleteArtifactInput!) { deleteArtifact(input: $input) { "
    "artifact { id } } }";

// The parts of a name.
struct Named {
  std::string project;
  std::string artifact;  // with its alias
  std::string file;      // empty: the only file
  bool has_alias;        // the name contains an alias other than "latest"
};

// The parts of a folder's name.
struct NamedFolder {
  std::string project;
  std::string beginning;  // prefix of the names of its artifacts: "" or with a dot at the end
};

std::string looking_for(const Named& named) {
  return "looking for " + printable_line(named.artifact) + " by";
}

// A run id in the form of W&B's tools.
std::string new_run_id() { return new_write_id().substr(0, 8); }

struct File {
  std::string name;
  std::string url;
  ObjectInfo info;
};

// Composer's logger makes names of artifacts in the same way.
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

class WandbStore final : public ObjectStore, public std::enable_shared_from_this<WandbStore> {
 public:
  WandbStore(WandbOptions options, const RemoteSettings& settings)
      : run_(first_given({options.run_id, environment("WANDB_RUN_ID")})),
        server_(std::make_shared<GraphQl>(std::move(options), settings)) {
    if (server_->entity().empty()) {
      throw UsageError("a W&B place needs an entity: wandb://ENTITY/PROJECT/ARTIFACT:ALIAS");
    }
  }

  StoreFeatures features() const override { return {.flat_names = true}; }
  std::string describe(const std::string& name) const override {
    return "wandb://" + server_->entity() + (name.empty() ? "" : "/" + name);
  }

  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    const ObjectInfo folder = {.type = ObjectInfo::Type::kFolder};
    const NamedFolder as_folder = parse_folder(name);
    if (as_folder.beginning.empty()) {
      return list_page(as_folder, "") ? std::optional(folder) : std::nullopt;
    }
    if (const auto file = find(parse(name))) return file->info;
    const auto target = link_of(name);
    if (!target && name.find(':') == std::string::npos && has_folder(name)) return folder;
    if (!target) return std::nullopt;
    if (!follow) return ObjectInfo{.type = ObjectInfo::Type::kPointer, .version = target->version};
    if (target->is_broken()) return std::nullopt;
    const auto file = find(parse(target->target));
    return file ? std::optional(file->info) : std::nullopt;
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    if (auto source = open_file(name)) return source;
    const auto target = link_of(name);
    if (!target) {
      throw NotFoundError("there is no artifact " + describe(name) +
                          ": check its project, name and alias");
    }
    if (target->is_broken()) throw NotFoundError(describe(name) + std::string(kNamesNothing));
    if (auto source = open_file(target->target)) return source;
    throw NotFoundError(describe(name) + " points at " + describe(target->target) +
                        ", which is not there");
  }

  std::optional<Pointer> read_pointer(const std::string& name) override { return link_of(name); }

  ListPage list(const std::string& name, const std::string& page) override {
    const NamedFolder folder = parse_folder(name);
    auto listed = next_page(folder, page);
    if (!listed) throw NotFoundError("there is no project " + describe(folder.project));
    if (!page.empty() || !listed->names.empty() || folder.beginning.empty()) {
      return *std::move(listed);
    }
    if (find(parse(name))) throw UsageError(describe(name) + " is not a folder");
    throw NotFoundError("there is no folder " + describe(name));
  }

  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    const Named named = parse_for_writing(name);
    if (options.condition.when == WriteCondition::If::kVersion) {
      throw UnsupportedError(describe(name) +
                             ": W&B cannot check the version of the replaced artifact");
    }
    const bool only_new = options.condition.when == WriteCondition::If::kAbsent;
    if (only_new) check_absent(name, named);
    return std::make_unique<SpooledWrite>(
        SpooledWrite::What{.name = describe(name),
                           .most_bytes = kLargestFile,
                           .expected_bytes = options.expected_bytes},
        [self = shared_from_this(), name, named, only_new](const SharedBytes& bytes) {
          if (only_new) self->check_absent(name, named);
          self->write(name, base_name(without_alias(name)), bytes);
        });
  }

  bool remove(const std::string& name) override {
    const Named named = parse(name);
    if (!named.file.empty()) {
      throw UsageError("cannot remove " + describe(name) + ": it is a file of an artifact");
    }
    if (remove_artifact(named)) return true;
    return !named.has_alias && !name.ends_with(kLinkFile) &&
           remove_artifact(parse(link_name(name)));
  }

  bool remove_folder(const std::string& name) override {
    if (parse_folder(name).beginning.empty()) {
      throw UsageError("cannot remove " + describe(name) + ": it is a whole project");
    }
    if (!has_folder(name)) {
      if (!find(parse(name)) && !link_of(name)) return false;
      throw UsageError("cannot remove " + describe(name) + " as a folder: it is a file or a link");
    }
    // The names are listed before the folder is judged. So if another program makes an artifact in
    // between, the artifact is judged, too, or stays.
    std::vector<std::string> names = list_names(*this, name);
    if (state_of_folder(*this, name) == FolderState::kOther) refuse_removal(name);
    std::stable_partition(names.begin(), names.end(), is_folder_marker);
    for (const std::string& in_it : names)
      remove(join_path(name, in_it));
    return true;
  }

  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    const Named to = parse_for_writing(target);
    if (to.project != parse_for_writing(name).project) {
      throw UsageError(describe(name) + " cannot point at " + describe(target) +
                       ": they are in two projects");
    }
    const auto there = expected ? link_of(name) : std::nullopt;
    if (expected && (there ? there->version : "") != *expected) {
      throw AlreadyExistsError(describe(name) + " does not point at \"" + *expected +
                               "\" any more: another program moved it");
    }
    const std::string link = link_name(name);
    const std::string text = without_alias(target).substr(to.project.size() + 1);
    write(link, base_name(link), shared_text(text));
  }

  void prepare(const std::string& folder) override { run_in(parse_folder(folder).project); }

 private:
  [[noreturn]] void refuse_removal(const std::string& name) const {
    throw UnsupportedError(describe(name) +
                           " cannot be removed as a folder: W&B's artifacts have flat names, and "
                           "not all that begin with it are parts of one checkpoint. Remove what is "
                           "meant by its own name");
  }

  void check_absent(const std::string& name, const Named& named) {
    if (!find(named)) return;
    refuse_existing(describe(name));
  }

  // Parses a name whose artifact may be written.
  Named parse_for_writing(const std::string& name) const {
    Named named = parse(name);
    if (!named.has_alias && named.file.empty()) return named;
    throw UsageError("cannot write " + describe(name) +
                     ": a write makes the newest version of the artifact, with one file; give a "
                     "name without an alias and a file");
  }

  NamedFolder parse_folder(const std::string& name) const {
    const std::string path = normal_path("/" + name).substr(1);
    const std::size_t slash = std::min(path.find('/'), path.size());
    NamedFolder folder = {.project = path.substr(0, slash),
                          .beginning = legal_name(path.substr(std::min(slash + 1, path.size())))};
    if (folder.project.empty()) {
      throw UsageError(describe(name) + " names no project: it must be wandb://ENTITY/PROJECT");
    }
    if (!folder.beginning.empty()) folder.beginning += '.';
    return folder;
  }

  // One page of a folder; nullopt if there is no such project.
  std::optional<ListPage> list_page(const NamedFolder& folder, const std::string& page) {
    Json variables = {{"entity", server_->entity()}, {"project", folder.project}};
    if (!page.empty()) variables["cursor"] = page;
    const std::string doing = "listing the artifacts of " + printable_line(folder.project) + " by";
    const Json project = server_->ask(kCollections, variables, "project", doing);
    if (project.is_null()) return std::nullopt;
    NodePage collections = known_page(project, "artifactCollections", doing);
    ListPage listed;
    for (const Json& node : collections.nodes) {
      std::string name = text_of(node, "name");
      if (!name.starts_with(folder.beginning) || name.find('/') != std::string::npos) continue;
      name.erase(0, folder.beginning.size());
      if (name.ends_with(kLinkFile)) name.resize(name.size() - kLinkFile.size());
      if (!name.empty()) listed.names.push_back({.name = std::move(name)});
    }
    listed.next = std::move(collections.next);
    return listed;
  }

  // The first page that has names, or the last page.
  std::optional<ListPage> next_page(const NamedFolder& folder, const std::string& page) {
    auto listed = list_page(folder, page);
    Pages pages(describe(folder.project));
    while (listed && listed->names.empty() && pages.advance(listed->next))
      listed = list_page(folder, pages.now());
    return listed;
  }

  // Whether the folder contains something.
  bool has_folder(const std::string& name) {
    const auto listed = next_page(parse_folder(name), "");
    return listed && !listed->names.empty();
  }

  // The run to which artifacts are written. The run is made when it is first needed.
  std::string run_in(const std::string& project) {
    const Turn turn(turns_);
    std::string& run = runs_[project];
    if (run.empty()) {
      const std::string id = run_.empty() ? new_run_id() : run_;
      make_run(*server_, project, id);
      run = id;
    }
    return run;
  }

  void write(const std::string& name, const std::string& file, const SharedBytes& bytes) {
    const Named named = parse_for_writing(name);
    const bool is_newest = write_artifact(server_,
                                          {.project = named.project,
                                           .run = run_in(named.project),
                                           .collection = without_alias(named.artifact),
                                           .file = file,
                                           .shown = describe(name)},
                                          bytes);
    const auto latest = is_newest ? std::nullopt : find(named);
    if (is_newest || (latest && latest->info.version == base64(md5({&bytes.view, 1})))) return;
    throw StorageError(describe(name) +
                           ": W&B already has these bytes as an older version, and did not "
                           "make that the newest one; write it again",
                       200, /*retryable=*/true);
  }

  bool remove_artifact(const Named& named) {
    const Json artifact = artifact_in(kIds, variables_of(named), named);
    if (artifact.is_null()) return false;
    const std::string doing = "removing " + printable_line(named.artifact) + " by";
    if (named.has_alias) {
      server_->ask(kRemoveOne,
                   {{"input", {{"artifactID", text_of(artifact, "id")}, {"deleteAliases", true}}}},
                   "deleteArtifact", doing);
    } else {
      server_->ask(kRemoveAll, {{"id", text_of(object_of(artifact, "artifactSequence"), "id")}},
                   "deleteArtifactSequence", doing);
    }
    return true;
  }

  Named parse(const std::string& name) const {
    const std::size_t slash = std::min(name.find('/'), name.size());
    const std::string rest = name.substr(std::min(slash + 1, name.size()));
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::size_t slash_after = std::min(rest.find('/', colon), rest.size());
    Named named = {.project = name.substr(0, slash),
                   .artifact = legal_name(rest.substr(0, colon)),
                   .file = rest.substr(std::min(slash_after + 1, rest.size())),
                   .has_alias = false};
    if (named.project.empty() || named.artifact.empty()) {
      throw UsageError(describe(name) +
                       " names no artifact: it must be wandb://ENTITY/PROJECT/ARTIFACT:ALIAS, or "
                       "wandb://ENTITY/PROJECT/ARTIFACT:ALIAS/FILE");
    }
    const std::string alias =
        colon < slash_after ? rest.substr(colon + 1, slash_after - colon - 1) : "";
    named.has_alias = !alias.empty() && alias != "latest";
    named.artifact += ":" + (alias.empty() ? "latest" : alias);
    return named;
  }

  // The result of a query about an artifact; null if the server says that there is no such
  // artifact.
  Json artifact_in(const char* query, const Json& variables, const Named& named) {
    const std::string doing = looking_for(named);
    const Json project = server_->ask(query, variables, "project", doing);
    return project.is_null() ? project : known_object(project, "artifact", doing);
  }

  // One page of the artifact's files; nullopt if there is no such artifact.
  std::optional<NodePage> ask(const Named& named, const std::string& cursor) {
    Json variables = variables_of(named);
    if (!cursor.empty()) variables["cursor"] = cursor;
    const Json artifact = artifact_in(kFiles, variables, named);
    if (artifact.is_null()) return std::nullopt;
    return known_page(artifact, "files", looking_for(named));
  }

  Json variables_of(const Named& named) const {
    return {{"entity", server_->entity()}, {"project", named.project}, {"name", named.artifact}};
  }

  // nullopt if there is no such artifact, or no such file in it.
  std::optional<File> find(const Named& named) {
    std::vector<File> found;
    Pages pages(describe(named.project + "/" + named.artifact));
    for (bool goes_on = true; goes_on;) {
      const auto files = ask(named, pages.now());
      if (!files) return std::nullopt;
      for (const Json& node : files->nodes) {
        File file = file_in(node);
        if (named.file.empty() || file.name == named.file) found.push_back(std::move(file));
      }
      goes_on = pages.advance(files->next);
    }
    if (found.size() > 1) {
      throw UsageError("the artifact " + describe(named.project + "/" + named.artifact) + " has " +
                       std::to_string(found.size()) + " files: say which, as " +
                       describe(named.project + "/" + named.artifact + "/" + found[0].name));
    }
    if (found.empty()) return std::nullopt;
    return std::move(found.front());
  }

  static File file_in(const Json& node) {
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
      // "latest" may be another version by now.
      return is_same ? SignedUrl{.url = now->url} : SignedUrl();
    };
    const auto remote = std::make_shared<SignedRemote>(
        server_->settings(),
        SignedRemote::What{
            .name = describe(name), .signer = "W&B", .first = {.url = file->url}, .fetch = again});
    auto source = open_object(remote, "");
    const std::uint64_t size = source == nullptr ? 0 : source->size();
    if (source == nullptr || size != file->info.size) {
      throw StorageError(describe(name) + ": W&B says that it has " +
                             std::to_string(file->info.size) + " bytes, but the stored file has " +
                             std::to_string(size),
                         0);
    }
    return source;
  }

  // The target of a file NAME.symlink (Composer's form), in the same project.
  std::optional<Pointer> link_of(const std::string& name) {
    const Named named = parse(name);
    if (!named.file.empty()) return std::nullopt;
    const auto source = open_file(link_name(name));
    if (source == nullptr) return std::nullopt;
    const std::string text = named_by_link(as_text(read_start(*source, kLongestLink + 1).view));
    const bool is_name = !text.empty() && printable_line(text) == text;
    if (!is_name) return Pointer{.target = "", .version = "broken"};
    return Pointer{.target = named.project + "/" + text, .version = named.project + "/" + text};
  }

  static std::string link_name(const std::string& name) {
    return name.ends_with(kLinkFile) ? name : without_alias(name) + std::string(kLinkFile);
  }

  static std::string without_alias(const std::string& name) {
    return name.substr(0, name.find(':'));
  }

  const std::string run_;  // "": make one for each project
  const std::shared_ptr<GraphQl> server_;
  Turns turns_;                              // guards runs_; held while a run is made
  std::map<std::string, std::string> runs_;  // existing runs, by project
};

}  // namespace

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
  return wandb::make_wandb_store(options, remote_settings());
}

}  // namespace cairn
