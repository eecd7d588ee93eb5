// Artifacts of a run that Databricks keeps in its cloud's storage (mlflow/artifacts/...):
//
//  1. Lists come from the workspace, which lists a file as the only entry of its own path. So
//     examining a name costs one request. Bytes go to and from the storage, by signed URLs that the
//     workspace gives for each file. The workspace's token never goes to the storage.
//  2. Reads are ranges of the version that was opened (If-Match). If the storage refuses a URL, a
//     new one is fetched.
//  3. A file is written with one PUT (S3, Google), or in blocks that a list makes visible (Azure).
//  4. Artifacts cannot be removed: Databricks has no request for it.
#include "cairn/error.h"

#include "core/text/printable.h"
#include "net/digest.h"
#include "storage/pages.h"
#include "storage/remote/container.h"
#include "storage/remote/source.h"
#include "storage/trackers/dbfs/artifact_list.h"
#include "storage/trackers/dbfs/runs.h"
#include "storage/trackers/rest/signed_remote.h"

namespace cairn::dbfs {
namespace {

constexpr std::uint64_t kLargestPut = std::uint64_t{5} << 30;  // the limit of S3 for one request
constexpr std::uint64_t kBlock = 100'000'000;                  // MLflow's own
constexpr const char* kAzure = "AZURE_SAS_URI";

// The workspace's answer about one file.
struct ArtifactUrl {
  SignedUrl url;
  std::string type;
};

ArtifactUrl fetch_url(RestRemote& api, const std::string& run, const std::string& path,
                      bool is_write) {
  const std::string doing = std::string("asking for a URL to ") + (is_write ? "write" : "read") +
                            " the artifact " + printable_line(path) + " by";
  const Json answer =
      api.post(is_write ? "artifacts/credentials-for-write" : "artifacts/credentials-for-read",
               {{"run_id", run}, {"path", Json::array({path})}}, doing);
  const Json infos = array_of(answer, "credential_infos");
  const Json info = infos.empty() ? Json() : infos.front();
  ArtifactUrl made = {.url = {.url = text_of(info, "signed_uri")}, .type = text_of(info, "type")};
  for (const Json& header : array_of(info, "headers")) {
    made.url.headers.push_back({text_of(header, "name"), text_of(header, "value")});
  }
  const bool is_known =
      made.type == kAzure || made.type == "AWS_PRESIGNED_URL" || made.type == "GCP_SIGNED_URL";
  if (is_known) return made;
  throw UnsupportedError(doing + " MLflow: the URL has the type \"" + printable_line(made.type) +
                         "\"; cairn supports AWS_PRESIGNED_URL, GCP_SIGNED_URL and " + kAzure +
                         "; keep the checkpoints in a volume");
}

struct Storage {
  std::shared_ptr<SignedRemote> remote;
  bool is_azure = false;
};

// The id is in base64; all ids of a file have the same length. All writers of a file share the
// blocks that are not yet in a list. A block replaces another one with the same id.
std::string block_id(const std::string& write_id, std::size_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, 8 - std::min<std::size_t>(digits.size(), 8), '0');
  const std::string text = write_id + "-" + digits;
  return base64(as_bytes(text));
}

class SignedArtifacts final : public ListedArtifacts {
 public:
  SignedArtifacts(const RestServer& workspace, const Run& run)
      : run_(run), api_(std::make_shared<RestRemote>(workspace, "/api/2.0/mlflow/", "MLflow's ")) {}

  std::string describe(const std::string& path) const override {
    return "dbfs:/" + run_.root() + path;
  }
  std::uint64_t largest_file() const override { return kLargestPut; }

  bool has_folder(const std::string& path) override {
    const auto there = find(path);
    return there && there->type == ObjectInfo::Type::kFolder;
  }

  std::shared_ptr<const ByteSource> open(const std::string& path,
                                         const std::optional<ObjectInfo>& known) override {
    if (!known && !find_file(path))
      return nullptr;  // The storage may answer 403 for a missing file.
    return open_object(storage(path, /*is_write=*/false).remote, path);
  }

  void put(const std::string& path, const SharedBytes& bytes, bool only_new) override {
    if (only_new) refuse_existing(path);
    const Storage to = storage(path, /*is_write=*/true);
    if (to.is_azure) {
      put_blocks(*to.remote, path, bytes);
    } else {
      const HttpResponse response =
          to.remote->send({.method = "PUT", .key = path, .body = {bytes}});
      to.remote->check(response, "writing", path);
    }
    verify_size(path, bytes.view.size());
  }

  bool remove_file(const std::string& path) override {
    throw UnsupportedError(describe(path) +
                           " cannot be removed: Databricks removes artifacts of MLflow only with "
                           "their run. Keep all checkpoints, or keep them in a volume");
  }

 protected:
  // Takes one request and at most one page of its answer, for any number of files. A file is listed
  // as the only entry of its own path, a folder by its content.
  std::optional<ObjectInfo> find(const std::string& path) override {
    const Json json = ask_for_list(path, "");
    if (auto info = listed_itself(json, path)) return info;
    if (array_of(json, "files").empty()) return std::nullopt;
    return ObjectInfo{.type = ObjectInfo::Type::kFolder};
  }

  ListPage entries(const std::string& folder, const std::string& page) override {
    const Json json = ask_for_list(folder, page);
    ListPage listed = {.names = listed_artifacts(json), .next = text_of(json, "next_page_token")};
    if (!page.empty() && listed.next == page) refuse_page_again(describe(folder));
    if (listed.names.empty()) listed.next.clear();
    return listed;
  }

 private:
  // Empty if there is no such folder.
  Json ask_for_list(const std::string& folder, const std::string& page) const {
    Query query = {{"run_id", run_.id}};
    if (!folder.empty()) query.emplace_back("path", folder);
    if (!page.empty()) query.emplace_back("page_token", page);
    const HttpResponse response = api_->send({.key = "artifacts/list", .query = query});
    if (response.status == 404) return Json::object();
    return api_->read(response, "listing " + describe(folder) + " by", "artifacts/list");
  }

  Storage storage(const std::string& path, bool is_write) const {
    const ArtifactUrl first = fetch_url(*api_, run_.id, path, is_write);
    RemoteSettings settings = api_->settings();
    settings.has_suffix_ranges = first.type != kAzure;
    SignedRemote::What what = {.name = describe(path),
                               .signer = "Databricks",
                               .first = first.url,
                               .fetch = [api = api_, run = run_.id, path, is_write] {
                                 return fetch_url(*api, run, path, is_write).url;
                               }};
    return {.remote = std::make_shared<SignedRemote>(settings, std::move(what)),
            .is_azure = first.type == kAzure};
  }

  static void put_blocks(SignedRemote& remote, const std::string& path, const SharedBytes& bytes) {
    // Azure's ids have at most 64 bytes.
    const std::string write_id = new_write_id().substr(0, 16);
    std::string list = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>";
    for (std::uint64_t at = 0; at < bytes.view.size(); at += kBlock) {
      const std::string id = block_id(write_id, at / kBlock);
      const std::uint64_t size = std::min<std::uint64_t>(kBlock, bytes.view.size() - at);
      const HttpResponse response = remote.send({.method = "PUT",
                                                 .key = path,
                                                 .query = {{"comp", "block"}, {"blockid", id}},
                                                 .body = {bytes.part(at, size)}});
      remote.check(response, "writing a block of", path);
      list += "<Latest>" + id + "</Latest>";
    }
    const HttpResponse response = remote.send({.method = "PUT",
                                               .key = path,
                                               .query = {{"comp", "blocklist"}},
                                               .headers = {{"content-type", "application/xml"}},
                                               .body = {shared_text(list + "</BlockList>")}});
    remote.check(response, "writing", path);
  }

  Run run_;
  std::shared_ptr<RestRemote> api_;
};

}  // namespace

std::shared_ptr<Tree> signed_artifacts(const RestServer& workspace, const Run& run) {
  return std::make_shared<SignedArtifacts>(workspace, run);
}

}  // namespace cairn::dbfs
