// A volume of Unity Catalog, by the Files API 2.0:
//
//  1. Files are read in ranges, on condition that the file was not modified since it was opened
//     (If-Unmodified-Since, which counts seconds).
//  2. A file is written with one PUT, of at most 5 GiB. The file's folder is made first: a PUT does
//     not promise to make it. overwrite=false is the only condition that the server supports.
//  3. After every write the file's size is requested, and compared.
#include <algorithm>
#include <charconv>
#include <mutex>
#include <set>

#include "cairn/error.h"

#include "core/existing.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/pages.h"
#include "storage/remote/source.h"
#include "storage/trackers/dbfs/workspace.h"

namespace cairn::dbfs {
namespace {

constexpr std::uint64_t kLargestFile = std::uint64_t{5} << 30;
constexpr std::uint64_t kLastMs = 9'000'000'000'000;  // in 2255: near the limit of a time point

// The size and the time of the last change: the server reports no more about a version.
std::string version_of(std::uint64_t size, NetTime modified) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(modified.time_since_epoch()).count();
  return std::to_string(seconds) + "-" + std::to_string(size);
}

class FilesRemote final : public RestRemote {
 public:
  FilesRemote(RestServer server, const std::string& volume)
      : RestRemote(std::move(server), "/api/2.0/fs/files/Volumes/" + volume + "/",
                   "dbfs:/Volumes/" + volume + "/") {}

  std::optional<HttpHeader> same_version(const HttpResponse& response) const override {
    const std::string_view modified = response.header("last-modified");
    if (modified.empty()) return std::nullopt;
    return HttpHeader{"if-unmodified-since", std::string(modified)};
  }
};

class Volume final : public Tree {
 public:
  Volume(const RestServer& workspace, const std::string& volume)
      : files_(std::make_shared<FilesRemote>(with_ranges(workspace), volume)),
        folders_(workspace, "/api/2.0/fs/directories/Volumes/" + volume + "/",
                 "dbfs:/Volumes/" + volume + "/") {}

  std::string describe(const std::string& path) const override { return files_->describe(path); }
  std::uint64_t largest_file() const override { return kLargestFile; }

  std::optional<ObjectInfo> find_file(const std::string& path) override {
    const HttpResponse response = files_->send({.method = "HEAD", .key = path});
    if (files_->is_missing(response)) return std::nullopt;
    files_->check(response, "looking at", path);
    const std::string_view length = response.header("content-length");
    ObjectInfo info;
    const auto [end, error] =
        std::from_chars(length.data(), length.data() + length.size(), info.size);
    if (error != std::errc() || end != length.data() + length.size()) {
      throw StorageError("looking at " + describe(path) + ": the server does not report its size",
                         response.status);
    }
    info.modified = parse_http_date(response.header("last-modified")).value_or(NetTime());
    info.version = version_of(info.size, info.modified);
    return info;
  }

  bool has_folder(const std::string& path) override {
    const HttpResponse response = folders_.send({.method = "HEAD", .key = path});
    if (folders_.is_missing(response)) return false;
    folders_.check(response, "looking at", path);
    return true;
  }

  std::shared_ptr<const ByteSource> open(const std::string& path,
                                         const std::optional<ObjectInfo>& /*known*/) override {
    return open_object(files_, path);
  }

  std::optional<ListPage> list(const std::string& folder, const std::string& page) override {
    Query query;
    if (!page.empty()) query.emplace_back("page_token", page);
    const HttpResponse response = folders_.send({.key = folder, .query = query});
    if (folders_.is_missing(response)) return std::nullopt;
    if (response.status == 400 && !folder.empty() && find_file(folder)) return std::nullopt;
    const Json json = folders_.read(response, "listing", folder);
    ListPage listed{.names = {}, .next = text_of(json, "next_page_token")};
    if (listed.next == page && !page.empty()) {
      refuse_page_again(describe(folder));
    }
    for (const Json& entry : array_of(json, "contents")) {
      ObjectInfo info;
      if (flag_of(entry, "is_directory")) {
        info.type = ObjectInfo::Type::kFolder;
      } else {
        info.size = number_of(entry, "file_size");
        info.modified = NetTime(
            std::chrono::milliseconds(std::min(number_of(entry, "last_modified"), kLastMs)));
        info.version = version_of(info.size, info.modified);
      }
      listed.names.push_back({text_of(entry, "name"), info});
    }
    return listed;
  }

  void put(const std::string& path, const SharedBytes& bytes, bool only_new) override {
    make_folder_of(path);
    const auto there = only_new ? find_file(path) : std::nullopt;
    HttpResponse response = there ? HttpResponse{.status = 409} : send_put(path, bytes, only_new);
    if (response.status == 404) {  // The folder was made once, and another client removed it.
      forget_folders();
      make_folder_of(path);
      response = send_put(path, bytes, only_new);
    }
    if (response.status == 409) {
      // Perhaps an earlier attempt wrote the file, and its answer was lost: the name was free
      // before.
      if (!there && only_new && holds(path, bytes)) return;
      refuse_existing(describe(path));
    }
    files_->check(response, "writing", path);
    verify_size(path, bytes.view.size());
  }

  bool remove_file(const std::string& path) override {
    const HttpResponse response = files_->send({.method = "DELETE", .key = path});
    // An earlier attempt removed the file, which was there just before.
    if (files_->is_missing(response)) return true;
    files_->check(response, "removing", path);
    return true;
  }

  void remove_folder(const std::string& path) override {
    forget_folders();
    const HttpResponse response = folders_.send({.method = "DELETE", .key = path});
    if (!folders_.is_missing(response)) folders_.check(response, "removing", path);
  }

 private:
  static RestServer with_ranges(RestServer workspace) {
    workspace.settings.has_suffix_ranges = false;  // The documentation shows none.
    return workspace;
  }

  HttpResponse send_put(const std::string& path, const SharedBytes& bytes, bool only_new) {
    return files_->send({.method = "PUT",
                         .key = path,
                         .query = {{"overwrite", only_new ? "false" : "true"}},
                         .headers = {{"content-type", "application/octet-stream"}},
                         .body = {bytes}});
  }

  // Idempotent. Makes the parent folders, too.
  void make_folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return;  // the volume itself
    const std::string folder = path.substr(0, slash);
    {
      const std::scoped_lock lock(mutex_);
      if (made_.contains(folder)) return;
    }
    folders_.check(folders_.send({.method = "PUT", .key = folder}), "making the folder", folder);
    const std::scoped_lock lock(mutex_);
    if (made_.size() >= kMaxMade) made_.clear();
    made_.insert(folder);
  }

  void forget_folders() {
    const std::scoped_lock lock(mutex_);
    made_.clear();
  }

  bool holds(const std::string& path, const SharedBytes& bytes) {
    const auto source = open_object(files_, path);
    if (source == nullptr || source->size() != bytes.view.size()) return false;
    constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;
    for (std::uint64_t at = 0; at < source->size(); at += kPiece) {
      const std::uint64_t now = std::min(kPiece, source->size() - at);
      if (as_text(source->view(at, now).view) != as_text(bytes.view.subspan(at, now))) return false;
    }
    return true;
  }

  void verify_size(const std::string& path, std::uint64_t size) {
    const auto there = find_file(path);
    if (there && there->size == size) return;
    throw StorageError(
        describe(path) + ": the server does not have what was written: " +
            (there ? std::to_string(there->size) + " bytes instead of " + std::to_string(size)
                   : std::string("no file of that name")) +
            "; write it again",
        0, /*retryable=*/true);
  }

  static constexpr std::size_t kMaxMade = 1000;

  std::shared_ptr<FilesRemote> files_;
  RestRemote folders_;
  std::mutex mutex_;
  std::set<std::string> made_;  // folders known to exist
};

}  // namespace

std::shared_ptr<Tree> volume_tree(const RestServer& workspace, const std::string& volume) {
  return std::make_shared<Volume>(workspace, volume);
}

}  // namespace cairn::dbfs
