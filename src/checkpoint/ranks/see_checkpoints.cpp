#include "checkpoint/ranks/see_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/folder/names_by_position.h"
#include "core/hash/xxh3.h"
#include "format/dcp/metadata/write_metadata.h"
#include "io/bytes/pieces.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

constexpr std::size_t kMaxSeen = 64;  // at most as many published checkpoints, and as many others
constexpr std::uint64_t kTail = std::uint64_t{64} << 10;

std::string hash_of(const ByteSource& source, std::uint64_t most) {
  const std::uint64_t size = std::min(source.size(), most);
  Xxh3 hash;
  for_each_piece(source, source.size() - size, size, [&](ByteView piece) { hash.write(piece); });
  return fmt::format("{}-{}", source.size(), hash.digest128());
}

// For a folder that several ranks wrote.
void add_attempt(ObjectStore& store, const std::string& path, const FolderManifest& manifest,
                 const std::set<std::string>& names, SeenCheckpoint& seen) {
  seen.identity = manifest.attempt;
  if (!seen.is_published) {
    seen.was_published = names.contains(kPublishedMark) && is_marked(store, path, manifest.attempt);
    seen.publisher = manifest.publisher;
  }
  const auto own = store.stat(join_path(path, kFolderManifest));
  std::vector<ManifestFile> files = manifest.files;
  if (seen.is_published) {
    files.push_back({.name = kFolderManifest, .bytes = own ? own->size : 0, .xxh3_128 = {}});
  }
  for (ManifestFile& file : files) {
    if (names.contains(file.name)) seen.has.push_back(file.name);
    if (!seen.is_published) continue;
    seen.files.push_back({std::move(file.name), file.bytes, std::move(file.machine)});
  }
}

// For a checkpoint of another program, on this machine or in a place that all ranks see.
void add_files(ObjectStore& store, const std::string& path, SeenCheckpoint& seen) {
  seen.identity = hash_of(*store.open(join_path(path, dcp::kMetadataFile)), UINT64_MAX);
  for (const ListedName& listed : list_all(store, path)) {
    const auto info = info_of(store, path, listed);
    if (!info || info->type != ObjectInfo::Type::kObject) continue;
    seen.files.push_back({.name = listed.name, .bytes = info->size});
    seen.has.push_back(listed.name);
  }
}

std::vector<std::int64_t> order_of(const Timestamp& claim) {
  return {claim.batch, claim.epoch, claim.iteration, claim.sample, claim.token};
}

std::optional<SeenCheckpoint> see_or_report(ObjectStore& store, const std::string& path,
                                            const std::string& name) {
  try {
    return see_checkpoint(store, path, name);
  } catch (const UnreadableError& e) {
    const int status = e.status() == 0 ? EIO : e.status();
    return SeenCheckpoint{.name = name, .problem = e.what(), .status = status};
  }
}

std::vector<SeenCheckpoint> see_named(ObjectStore& store, const std::string& folder,
                                      NamesByPosition& names) {
  std::vector<SeenCheckpoint> all;
  std::size_t unpublished = 0;  // leftovers of failed saves must not hide whole checkpoints
  while (all.size() - unpublished < kMaxSeen && names.next() != nullptr) {
    const NamedFile file = names.take();
    auto seen =
        see_or_report(store, file.path, relative_path(normal_path(file.path), normal_path(folder)));
    if (!seen) continue;
    if (!seen->is_published && !seen->was_published) {
      if (unpublished == kMaxSeen) continue;
      ++unpublished;
    }
    seen->order = order_of(file.claim);
    all.push_back(std::move(*seen));
  }
  return all;
}

}  // namespace

std::optional<FolderManifest> manifest_of(ObjectStore& store, const std::string& folder) {
  try {
    return parse_folder_manifest(
        as_text(read_all(*store.open(join_path(folder, kFolderManifest))).view));
  } catch (const CorruptError&) {
    return std::nullopt;
  } catch (const UnsupportedError&) {
    return std::nullopt;
  } catch (const NotFoundError&) {  // removed meanwhile
    return std::nullopt;
  }
}

std::optional<SeenCheckpoint> see_checkpoint(ObjectStore& store, const std::string& path,
                                             const std::string& name) {
  const auto info = store.stat(path);
  if (!info) return std::nullopt;
  SeenCheckpoint seen{.name = name};
  try {
    if (info->type == ObjectInfo::Type::kObject) {
      seen.identity = hash_of(*store.open(path), kTail);
      seen.files = {{.bytes = info->size}};
      seen.has = {""};
      return seen;
    }
    if (info->type != ObjectInfo::Type::kFolder) return std::nullopt;
    const std::vector<std::string> listed = list_names(store, path);
    const std::set<std::string> names(listed.begin(), listed.end());
    seen.is_published = names.contains(dcp::kMetadataFile);
    std::optional<FolderManifest> manifest;
    if (names.contains(kFolderManifest)) manifest = manifest_of(store, path);
    const bool is_of_ranks = manifest && !manifest->attempt.empty();
    if (!is_of_ranks && !seen.is_published) return std::nullopt;
    if (is_of_ranks) {
      add_attempt(store, path, *manifest, names, seen);
    } else {
      add_files(store, path, seen);
    }
    return seen;
  } catch (const NotFoundError&) {  // removed meanwhile
    return std::nullopt;
  }
}

bool is_marked(ObjectStore& store, const std::string& folder, const std::string& attempt) {
  try {
    const auto mark = store.open(join_path(folder, kPublishedMark));
    return mark->size() == attempt.size() && as_text(read_all(*mark).view) == attempt;
  } catch (const NotFoundError&) {
    return false;
  }
}

bool is_machine_part(ObjectStore& store, const std::string& path) {
  const auto seen = see_checkpoint(store, path, path);
  if (!seen || !seen->is_published) return seen.has_value();
  const std::set<std::string> has(seen->has.begin(), seen->has.end());
  return std::ranges::any_of(seen->files, [&](const SeenCheckpoint::File& file) {
    return !file.machine.empty() && !has.contains(file.name);
  });
}

std::vector<SeenCheckpoint> see_checkpoints(ObjectStore& store, const SeePlace& place) {
  std::vector<SeenCheckpoint> all;
  if (!store.stat(place.folder)) return all;
  ListedFolders listed;
  std::set<std::string> known;  // a name may fit several formats
  for (const NameFormat& format : place.filenames) {
    NamesByPosition names(store, place.folder, format, place.writer, &listed);
    for (SeenCheckpoint& seen : see_named(store, place.folder, names)) {
      if (known.insert(seen.name).second) all.push_back(std::move(seen));
    }
  }
  std::ranges::stable_sort(all, std::greater(), &SeenCheckpoint::order);
  return all;
}

}  // namespace cairn
