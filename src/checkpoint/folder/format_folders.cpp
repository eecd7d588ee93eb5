#include "checkpoint/folder/format_folders.h"

#include <cerrno>

#include "cairn/error.h"

#include "format/dcp/metadata/write_metadata.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn {

bool is_known_folder(ObjectStore& store, const std::string& path) {
  try {
    return is_folder(store, path);
  } catch (const StorageError& e) {
    const bool is_closed = e.status() == EACCES || e.status() == EPERM || e.status() == ELOOP;
    if (!is_closed) throw;
    return false;
  }
}

bool is_known_folder(ObjectStore& store, const std::string& folder, const ListedName& listed) {
  using Type = ObjectInfo::Type;
  const bool is_told = listed.info && listed.info->type != Type::kPointer;
  if (is_told) return listed.info->type == Type::kFolder;
  return is_known_folder(store, join_path(folder, listed.name));
}

bool is_checkpoint_folder(ObjectStore& store, const std::string& path) {
  const auto metadata = store.stat(join_path(path, dcp::kMetadataFile));
  return metadata && metadata->type == ObjectInfo::Type::kObject;
}

bool lost_hidden_files(ObjectStore& store, const std::string& path) {
  bool has_ranks = false;
  for (const std::string& name : list_names(store, path)) {
    if (name.starts_with('.')) return false;
    has_ranks = has_ranks || name.ends_with(".distcp");
  }
  return has_ranks;
}

std::vector<std::string> format_folders(ObjectStore& store, const std::string& folder,
                                        const NameFormat& format, const FormatVariables& dist) {
  std::vector<std::string> found = {""};
  const std::size_t slash = format.text().find('/');
  if (slash == std::string::npos) return found;
  const NameFormat level(format.text().substr(0, slash));
  const NameFormat rest(format.text().substr(slash + 1));
  for (const ListedName& listed : list_all_if_any(store, folder)) {
    const std::string& name = listed.name;
    if (!parse_name(level, name, dist) || !is_known_folder(store, folder, listed)) continue;
    for (const std::string& below : format_folders(store, join_path(folder, name), rest, dist)) {
      found.push_back(below.empty() ? name : join_path(name, below));
    }
  }
  return found;
}

}  // namespace cairn
