// Writes an artifact. W&B's own tools use the same order and the same names:
//
//  1. createArtifact announces the digest of all files. Existing content is not made again.
//  2. createArtifactManifest makes the artifact's list of files, still empty.
//  3. createArtifactFiles gives a URL for each file, and the bytes go to the storage at that URL.
//     Bytes that the server already has get no URL.
//  4. A second createArtifactManifest, with the list's digest, gives a URL for the list itself.
//  5. commitArtifact gives the artifact its version and its aliases. Before that the artifact is
//     invisible.
//  6. Afterwards the server is asked about the artifact's id: whether it is committed, with these
//     bytes. Another writer's artifact may be the newest by then.
#include "storage/trackers/wandb/write.h"

#include <algorithm>
#include <array>
#include <functional>

#include "cairn/error.h"

#include "core/text/printable.h"
#include "core/text/random_name.h"
#include "net/digest.h"
#include "storage/trackers/rest/signed_remote.h"

namespace cairn::wandb {
namespace {

constexpr const char* kCreate =
    "mutation CreateArtifact($input: CreateArtifactInput!) { createArtifact(input: $input) { "
    "artifact { id state artifactSequence { latestArtifact { id } } } } }";
constexpr const char* kCreateManifest =
    "mutation CreateArtifactManifest($artifactID: ID!, $baseArtifactID: ID, $name: String!, "
    "$digest: String!, $entityName: String!, $projectName: String!, $runName: String!, "
    "$manifestType: ArtifactManifestType!, $includeUpload: Boolean!) { "
    "createArtifactManifest(input: { artifactID: $artifactID, baseArtifactID: $baseArtifactID, "
    "name: $name, digest: $digest, entityName: $entityName, projectName: $projectName, "
    "runName: $runName, type: $manifestType }) { artifactManifest { id file { id "
    "uploadUrl @include(if: $includeUpload) uploadHeaders @include(if: $includeUpload) } } } }";
constexpr const char* kCreateFiles =
    "mutation CreateArtifactFiles($artifactFiles: [CreateArtifactFileSpecInput!]!, "
    "$storageLayout: ArtifactStorageLayout!) { createArtifactFiles(input: { "
    "artifactFiles: $artifactFiles, storageLayout: $storageLayout }) { files { edges { node { "
    "uploadUrl uploadHeaders artifact { id } } } } } }";
constexpr const char* kCommit =
    "mutation CommitArtifact($artifactID: ID!) { commitArtifact(input: { "
    "artifactID: $artifactID }) { artifact { id digest } } }";

constexpr const char* kWritten =
    "query CairnWritten($id: ID!) { artifact(id: $id) { id state digest files(first: 2) { "
    "edges { node { sizeBytes digest } } } } }";

std::string md5_base64(ByteView bytes) { return base64(md5({&bytes, 1})); }

constexpr std::size_t kClientIdLength = 128;  // of the ids by which W&B's tools know what they make

// The number after `word`, which must begin a part of the name: 20 for "ba" in "ep1-ba20-rank0.pt".
std::string number_after(const std::string& name, const std::string& word) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const std::size_t begin = at + word.size();
    std::size_t end = begin;
    while (end < name.size() && is_digit(name[end]))
      ++end;
    const bool is_part = at == 0 || name[at - 1] == '-' || name[at - 1] == '.';
    if (is_part && end > begin && end - begin < 19) return name.substr(begin, end - begin);
  }
  return {};
}

// The type that Composer's logger uses: the extension, and "model" for .pt.
std::string type_of(const std::string& collection) {
  const std::string extension = collection.substr(collection.rfind('.') + 1);
  if (extension == "pt") return "model";
  return extension.empty() || extension.size() > 16 ? "file" : extension;
}

// One artifact, from createArtifact to commitArtifact.
class NewArtifact {
 public:
  NewArtifact(std::shared_ptr<GraphQl> server, const ArtifactToWrite& what,
              const SharedBytes& bytes)
      : server_(std::move(server)), what_(what), bytes_(bytes), md5_(md5_base64(bytes.view)) {}

  bool write() {
    if (!create()) return base_ == id_;
    manifest_ = text_of(ask_manifest("", /*with_url=*/false), "id");
    need(manifest_, "the id of a manifest");
    const SignedUrl url = file_url();
    if (!url.url.empty()) put_file(url);
    const SharedBytes list = shared_text(manifest_text());
    const std::string digest = md5_base64(list.view);
    put(list, manifest_url(digest), [this, digest] { return manifest_url(digest); });
    commit();
    return true;
  }

 private:
  std::string doing() const { return "writing " + what_.shown + " to"; }

  void need(const std::string& found, const std::string& what) const {
    if (!found.empty()) return;
    throw StorageError(doing() + " W&B: its answer does not have " + what, 200);
  }

  // False if the server has an artifact with this content.
  bool create() {
    const std::string epoch = number_after(what_.file, "ep");
    const std::string batch = number_after(what_.file, "ba");
    Json aliases = Json::array();
    const auto add = [&](const std::string& alias) {
      aliases.push_back({{"artifactCollectionName", what_.collection}, {"alias", alias}});
    };
    add("latest");
    Json input = {{"entityName", server_->entity()},
                  {"projectName", what_.project},
                  {"runName", what_.run},
                  {"artifactTypeName", type_of(what_.collection)},
                  {"artifactCollectionName", what_.collection},
                  {"digest", digest_of_all()},
                  {"digestAlgorithm", "MANIFEST_MD5"},
                  {"enableDigestDeduplication", true},
                  {"clientID", random_name(kClientIdLength)},
                  {"sequenceClientID", random_name(kClientIdLength)}};
    if (!epoch.empty() && !batch.empty()) {
      add("ep" + epoch + "-ba" + batch);
      const Json metadata = {{"timestamp/epoch", std::stoull(epoch)},
                             {"timestamp/batch", std::stoull(batch)}};
      input["metadata"] = metadata.dump();
    }
    input["aliases"] = std::move(aliases);
    const Json made =
        object_of(server_->ask(kCreate, {{"input", input}}, "createArtifact", doing()), "artifact");
    id_ = text_of(made, "id");
    need(id_, "the id of an artifact");
    base_ = text_of(object_of(object_of(made, "artifactSequence"), "latestArtifact"), "id");
    return text_of(made, "state") != "COMMITTED";
  }

  // If the answer to a successful PUT is lost, the URL may be refused the second time. If another
  // URL is requested, the server gives none, as it has the bytes by then.
  void put_file(const SignedUrl& url) {
    bool is_there = false;
    try {
      put(bytes_, url, [&] {
        SignedUrl again = file_url();
        is_there = again.url.empty();
        return again;
      });
    } catch (const StorageError&) {
      if (!is_there) throw;
    }
  }

  // If the answer is lost, the second answer is an error: the artifact is already committed. Then
  // the server's state shows the outcome.
  void commit() const {
    try {
      server_->ask(kCommit, {{"artifactID", id_}}, "commitArtifact", doing());
    } catch (const StorageError&) {
      bool is_committed = false;
      try {
        is_committed = is_written();
      } catch (const StorageError&) {
        // The outcome is unknown. The first error says why.
      }
      if (!is_committed) throw;
      return;
    }
    if (is_written()) return;
    throw StorageError(
        doing() + " W&B: it said that the artifact is committed, but it does not have the " +
            "bytes that were sent",
        200);
  }

  bool is_written() const {
    const Json found = server_->ask(kWritten, {{"id", id_}}, "artifact", doing());
    const Json edges = array_of(object_of(found, "files"), "edges");
    const Json file = edges.size() == 1 ? object_of(edges.front(), "node") : Json();
    return text_of(found, "state") == "COMMITTED" && text_of(found, "digest") == digest_of_all() &&
           text_of(file, "digest") == md5_ && number_of(file, "sizeBytes") == bytes_.view.size();
  }

  std::string digest_of_all() const {
    const std::string text = "wandb-artifact-manifest-v1\n" + what_.file + ":" + md5_ + "\n";
    const ByteView view = as_bytes(text);
    return hex(md5({&view, 1}));
  }

  std::string manifest_text() const {
    const Json entry = {{"digest", md5_},
                        {"size", bytes_.view.size()},
                        {"birthArtifactID", birth_},
                        {"skip_cache", false}};
    return Json{{"version", 1},
                {"storagePolicy", "wandb-storage-policy-v1"},
                {"storagePolicyConfig", {{"storageLayout", "V2"}}},
                {"contents", {{what_.file, entry}}}}
        .dump();
  }

  Json ask_manifest(const std::string& digest, bool with_url) const {
    Json variables = {{"artifactID", id_},
                      {"name", "wandb_manifest.json"},
                      {"digest", digest},
                      {"entityName", server_->entity()},
                      {"projectName", what_.project},
                      {"runName", what_.run},
                      {"manifestType", "FULL"},
                      {"includeUpload", with_url}};
    if (!base_.empty()) variables["baseArtifactID"] = base_;
    return object_of(server_->ask(kCreateManifest, variables, "createArtifactManifest", doing()),
                     "artifactManifest");
  }

  SignedUrl manifest_url(const std::string& digest) const {
    const SignedUrl url = url_in(object_of(ask_manifest(digest, /*with_url=*/true), "file"));
    need(url.url, "the URL of a manifest");
    return url;
  }

  // Empty if the server already has these bytes.
  SignedUrl file_url() {
    const Json spec = {{"artifactID", id_},
                       {"artifactManifestID", manifest_},
                       {"name", what_.file},
                       {"md5", md5_}};
    const Json answer = server_->ask(
        kCreateFiles, {{"artifactFiles", Json::array({spec})}, {"storageLayout", "V2"}},
        "createArtifactFiles", doing());
    const Json edges = array_of(object_of(answer, "files"), "edges");
    const Json node = edges.empty() ? Json() : object_of(edges.front(), "node");
    birth_ = text_of(object_of(node, "artifact"), "id");
    need(birth_, "the artifact of the file");
    return url_in(node);
  }

  // The URL with its headers, which are "NAME:VALUE".
  static SignedUrl url_in(const Json& file) {
    SignedUrl url = {.url = text_of(file, "uploadUrl")};
    for (const Json& header : array_of(file, "uploadHeaders")) {
      const std::string text = header.is_string() ? header.get<std::string>() : "";
      const std::size_t colon = text.find(':');
      if (colon == std::string::npos) continue;
      const std::size_t value = std::min(text.find_first_not_of(" \t", colon + 1), text.size());
      url.headers.push_back({text.substr(0, colon), text.substr(value)});
    }
    return url;
  }

  void put(const SharedBytes& bytes, const SignedUrl& url,
           const std::function<SignedUrl()>& again) const {
    SignedRemote storage(
        server_->settings(),
        SignedRemote::What{.name = what_.shown, .signer = "W&B", .first = url, .fetch = again});
    RemoteRequest request = {.method = "PUT"};
    if (!bytes.view.empty()) request.body = {bytes};
    storage.check(storage.send(std::move(request)), "writing", "");
  }

  const std::shared_ptr<GraphQl> server_;
  const ArtifactToWrite& what_;
  const SharedBytes& bytes_;
  const std::string md5_;
  std::string id_ = {};
  std::string base_ = {};      // the newest version, as reported by the answer
  std::string manifest_ = {};  // the manifest's id
  std::string birth_ = {};     // the artifact with which the file came to the server
};

}  // namespace

bool write_artifact(const std::shared_ptr<GraphQl>& server, const ArtifactToWrite& artifact,
                    const SharedBytes& bytes) {
  return NewArtifact(server, artifact, bytes).write();
}

void make_run(GraphQl& server, const std::string& project, const std::string& run) {
  server.ask(kUpsertRun, {{"name", run}, {"project", project}, {"entity", server.entity()}},
             "upsertBucket", "making the run " + printable_line(run) + " by");
}

}  // namespace cairn::wandb
