#include "storage/trackers/dbfs/artifact_list.h"

#include "cairn/error.h"

#include "core/existing.h"
#include "io/file.h"
#include "storage/pages.h"
#include "storage/trackers/rest/rest.h"

namespace cairn::dbfs {

std::vector<ListedName> listed_artifacts(const Json& answer) {
  std::vector<ListedName> names;
  for (const Json& file : array_of(answer, "files")) {
    ObjectInfo info;
    if (flag_of(file, "is_dir")) {
      info.type = ObjectInfo::Type::kFolder;
    } else {
      info.size = number_of(file, "file_size");
      info.version = "size-" + std::to_string(info.size);
    }
    names.push_back({base_name(text_of(file, "path")), info});
  }
  return names;
}

std::optional<ObjectInfo> listed_itself(const Json& answer, const std::string& path) {
  const Json files = array_of(answer, "files");
  if (files.size() != 1 || text_of(files.front(), "path") != path) return std::nullopt;
  const ObjectInfo info = *listed_artifacts(answer).front().info;
  return info.type == ObjectInfo::Type::kObject ? std::optional(info) : std::nullopt;
}

std::optional<ObjectInfo> ListedArtifacts::find(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  Pages pages(describe(folder));
  ListPage listed;
  do {
    listed = entries(folder, pages.now());
    for (const ListedName& each : listed.names) {
      if (each.name == name) return each.info;
    }
  } while (pages.advance(listed.next));
  return std::nullopt;
}

std::optional<ObjectInfo> ListedArtifacts::find_file(const std::string& path) {
  const auto info = find(path);
  return info && info->type == ObjectInfo::Type::kObject ? info : std::nullopt;
}

Tree::Look ListedArtifacts::look(const std::string& path, const std::string& link,
                                 bool may_be_file) {
  const auto there = find(path);
  const bool is_file = there && there->type == ObjectInfo::Type::kObject;
  if (is_file && may_be_file) return {.file = there};
  return {.link = link.empty() ? std::nullopt : find_file(link), .is_folder = there && !is_file};
}

std::optional<ListPage> ListedArtifacts::list(const std::string& folder, const std::string& page) {
  ListPage listed = entries(folder, page);
  if (folder.empty() || !page.empty()) return listed;
  // The server may list a file as the only entry of its own path.
  const bool may_be_file = listed.names.size() == 1 && listed.names[0].name == base_name(folder);
  if ((listed.names.empty() || may_be_file) && !has_folder(folder)) return std::nullopt;
  return listed;
}

void ListedArtifacts::refuse_existing(const std::string& path) {
  if (!find_file(path)) return;
  cairn::refuse_existing(describe(path));
}

void ListedArtifacts::verify_size(const std::string& path, std::uint64_t size) {
  const auto there = find_file(path);
  if (there && there->size == size) return;
  throw StorageError(
      describe(path) + ": the server does not have what was written: " +
          (there ? std::to_string(there->size) + " bytes instead of " + std::to_string(size)
                 : std::string("no artifact of that name")) +
          "; write it again",
      0, /*retryable=*/true);
}

}  // namespace cairn::dbfs
