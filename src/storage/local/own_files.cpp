#include "storage/local/own_files.h"

#include "cairn/error.h"

#include "core/text/json.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/object_folder.h"

namespace cairn {
namespace {

// Adds the files that an index of shards names. An index that cannot be parsed names none.
void add_names_in_index(ObjectStore& store, const std::string& path, std::set<std::string>& names) {
  SharedBytes bytes;
  try {
    bytes = read_all(*store.open(path));
  } catch (const NotFoundError&) {
    return;  // The index was removed after it was listed.
  }
  const std::string_view text = as_text(bytes.view);
  const auto index = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map")) return;
  for (const auto& file : index["weight_map"]) {
    if (file.is_string()) names.insert(file.get<std::string>());
  }
}

}  // namespace

std::optional<std::string> foreign_file_in(ObjectStore& store, const std::string& name,
                                           const std::set<std::string>& replaced) {
  // A store with flat names has only folders that it made itself, and it checks them itself.
  if (store.features().flat_names || !is_folder(store, name)) return std::nullopt;
  std::set<std::string> strange;
  std::set<std::string> indices;
  for (const ListedName& listed : list_all_if_any(store, name)) {
    const auto info = info_of(store, name, listed);
    if (!info) continue;
    if (!is_folder_file(listed.name, *info)) {
      strange.insert(listed.name);
    } else if (is_folder_marker(listed.name) && listed.name.ends_with(".json")) {
      indices.insert(listed.name);
    }
  }
  if (strange.empty()) return std::nullopt;
  std::set<std::string> own = replaced;
  for (const std::string& index : indices) {
    add_names_in_index(store, join_path(name, index), own);
  }
  for (const std::string& file : strange) {
    if (!own.contains(file)) return file;
  }
  return std::nullopt;
}

void check_only_own_files(ObjectStore& store, const std::string& name,
                          const std::set<std::string>& replaced) {
  if (!store.features().whole_folders) return;
  const auto file = foreign_file_in(store, name, replaced);
  if (!file) return;
  throw UsageError("cannot replace " + store.describe(name) + ": it holds " + *file +
                   ", which is no part of a checkpoint, and would be lost; choose another name, " +
                   "or move that file first");
}

bool remove_checkpoint_folder(ObjectStore& store, const std::string& name) {
  const auto file = foreign_file_in(store, name);
  if (!file) return store.remove_folder(name);
  throw UsageError("cannot remove " + store.describe(name) + ": it holds " + *file +
                   ", which is no part of a checkpoint, and would be lost; move that file first");
}

}  // namespace cairn
