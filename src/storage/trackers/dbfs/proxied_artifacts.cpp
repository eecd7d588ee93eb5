// Artifacts of a run on an MLflow server that forwards them (api/2.0/mlflow-artifacts):
//
//  1. The server reports only the name and size of a file, and only in the list of its folder,
//     which is one page. (The server's answer to HEAD has no size, and HEAD makes the server fetch
//     the whole file.) So one list answers all questions of a call.
//  2. The server sends files whole. An opened file is read into memory, with the size from the
//     list.
//  3. After every write the file's size is requested in the list, and compared.
//  4. If the server's storage is S3 or Google, a removal removes every path that begins with the
//     given one. So cairn refuses a removal that would remove another file, too, and never removes
//     folders.
#include <algorithm>
#include <new>

#include "cairn/error.h"

#include "core/text/printable.h"
#include "io/file.h"
#include "io/memory/page_memory.h"
#include "storage/trackers/dbfs/artifact_list.h"
#include "storage/trackers/dbfs/runs.h"

namespace cairn::dbfs {
namespace {

constexpr const char* kArtifacts = "/api/2.0/mlflow-artifacts/artifacts";
constexpr std::size_t kLargestList = std::size_t{256} << 20;  // a folder is listed in one page
constexpr std::uint64_t kMaxInMemory = std::uint64_t{1} << 40;

// "E/R/artifacts" of "mlflow-artifacts:/E/R/artifacts", or of the server's own URL for that.
std::string proxied_root(const RestServer& server, const Run& run) {
  constexpr std::string_view kScheme = "mlflow-artifacts:";
  const std::string own = server.url.origin() + server.url.path + kArtifacts + "/";
  std::string root;
  if (run.artifact_uri.starts_with(own)) {
    root = run.artifact_uri.substr(own.size());
  } else if (run.artifact_uri.starts_with(kScheme)) {
    root = run.artifact_uri.substr(kScheme.size());
    const bool has_host = root.starts_with("//") && !root.starts_with("///");
    if (has_host) root.clear();  // Another server would get this server's authorization.
  }
  root.erase(0, std::min(root.find_first_not_of('/'), root.size()));
  while (root.ends_with('/'))
    root.pop_back();
  if (!root.empty()) return root;
  throw UnsupportedError("the artifacts of MLflow's run " + run.id + " are at " +
                         printable_line(run.artifact_uri) +
                         ", and the server does not forward them: use that place itself, or start "
                         "the server with --serve-artifacts");
}

class ProxiedArtifacts final : public ListedArtifacts {
 public:
  ProxiedArtifacts(const RestServer& server, const Run& run)
      : root_(proxied_root(server, run)),
        files_(server, std::string(kArtifacts) + "/" + root_ + "/", "dbfs:/" + run.root()),
        lists_(server, kArtifacts, "dbfs:/" + run.root()) {}

  std::string describe(const std::string& path) const override { return files_.describe(path); }
  std::uint64_t largest_file() const override { return std::uint64_t{1} << 62; }

  // Only the content of a folder shows that it is one: a file and a missing path have empty lists.
  bool has_folder(const std::string& path) override { return !entries(path, "").names.empty(); }

  // One list of the folder answers everything.
  Look look(const std::string& path, const std::string& link, bool may_be_file) override {
    Look found;
    const std::size_t slash = path.rfind('/');
    for (ListedName& each :
         entries(slash == std::string::npos ? "" : path.substr(0, slash), "").names) {
      const bool is_file = each.info->type == ObjectInfo::Type::kObject;
      if (each.name == base_name(path)) {
        if (is_file && may_be_file) found.file = each.info;
        found.is_folder = found.is_folder || !is_file;
      }
      if (is_file && !link.empty() && each.name == base_name(link)) found.link = each.info;
    }
    return found;
  }

  std::shared_ptr<const ByteSource> open(const std::string& path,
                                         const std::optional<ObjectInfo>& known) override {
    const auto info = known ? known : find_file(path);
    if (!info) return nullptr;
    const auto memory = memory_for(info->size, path);
    const std::span<std::byte> place(memory->data(), info->size);
    const HttpResponse response = files_.send({.key = path, .into = place});
    files_.check(response, "reading", path);
    if (response.received != info->size) {
      throw StorageError("reading " + describe(path) + ": the server sent " +
                             std::to_string(response.received) + " of " +
                             std::to_string(info->size) + " bytes",
                         response.status, /*retryable=*/true);
    }
    return source_of({place, memory}, describe(path));
  }

  void put(const std::string& path, const SharedBytes& bytes, bool only_new) override {
    if (only_new) refuse_existing(path);
    const HttpResponse response =
        files_.send({.method = "PUT",
                     .key = path,
                     .headers = {{"content-type", "application/octet-stream"}},
                     .body = {bytes}});
    files_.check(response, "writing", path);
    verify_size(path, bytes.view.size());
  }

  bool remove_file(const std::string& path) override {
    refuse_beginning(path);
    const HttpResponse response = files_.send({.method = "DELETE", .key = path});
    if (response.status != 404) files_.check(response, "removing", path);
    return true;
  }

 protected:
  ListPage entries(const std::string& folder, const std::string& /*page*/) override {
    const HttpResponse response =
        lists_.send({.query = {{"path", folder.empty() ? root_ : root_ + "/" + folder}},
                     .most_bytes = kLargestList});
    if (response.status == 404) return {};
    return {.names = listed_artifacts(lists_.read(response, "listing", folder))};
  }

 private:
  // The size is only the server's claim: it may be more than any machine has. The error blames the
  // server, not the file.
  std::shared_ptr<PageMemory> memory_for(std::uint64_t size, const std::string& path) const {
    try {
      if (size <= kMaxInMemory) return std::make_shared<PageMemory>(size);
    } catch (const std::bad_alloc&) {
    }
    throw StorageError("reading " + describe(path) + ": the server sends files whole, and the " +
                           std::to_string(size) +
                           " bytes that it lists are too many to be read into memory; download the "
                           "file, and load it from there",
                       0);
  }

  // Throws UnsupportedError if another name in the folder begins with the file's name.
  void refuse_beginning(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
    const std::string name = base_name(path);
    for (const ListedName& each : entries(folder, "").names) {
      const bool is_itself = each.name == name && each.info->type == ObjectInfo::Type::kObject;
      if (is_itself || !each.name.starts_with(name)) continue;
      throw UnsupportedError(describe(path) + " cannot be removed: its name is the beginning of " +
                             printable_line(each.name) +
                             ", which some MLflow servers would remove with it. Remove that first, "
                             "or the folder");
    }
  }

  std::string root_;
  RestRemote files_;
  RestRemote lists_;
};

}  // namespace

std::shared_ptr<Tree> proxied_artifacts(const RestServer& server, const Run& run) {
  return std::make_shared<ProxiedArtifacts>(server, run);
}

}  // namespace cairn::dbfs
