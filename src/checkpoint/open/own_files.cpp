#include "checkpoint/open/own_files.h"

#include "cairn/error.h"

#include "format/safetensors/shard_index.h"
#include "io/file.h"
#include "io/source_part.h"
#include "storage/listing.h"
#include "storage/object_folder.h"

namespace cairn {
namespace {

std::set<std::string> names_in_index(ObjectStore& store, const std::string& path) {
  try {
    const auto files = safetensors::parse_index(read_all(*store.open(path)).view).files();
    return {files.begin(), files.end()};
  } catch (const CorruptError&) {
    return {};  // no index of shards, or one that names nothing
  }
}

}  // namespace

void check_only_own_files(ObjectStore& store, const std::string& name,
                          const std::set<std::string>& replaced) {
  if (!is_folder(store, name) || !store.features().whole_folders) return;
  std::set<std::string> strange;
  std::set<std::string> own = replaced;
  std::set<std::string> indices;
  for (const ListedName& listed : list_all(store, name)) {
    const auto info = info_of(store, name, listed);
    if (!info) continue;
    if (!is_folder_file(listed.name, *info)) {
      strange.insert(listed.name);
    } else if (is_folder_marker(listed.name) && listed.name.ends_with(".json")) {
      indices.insert(listed.name);
    }
  }
  if (strange.empty()) return;
  for (const std::string& index : indices) {
    own.merge(names_in_index(store, join_path(name, index)));
  }
  for (const std::string& file : strange) {
    if (own.contains(file)) continue;
    throw UsageError("cannot replace " + store.describe(name) + ": it holds " + file +
                     ", which is no part of a checkpoint, and would be lost; choose another " +
                     "name, or move that file first");
  }
}

}  // namespace cairn
