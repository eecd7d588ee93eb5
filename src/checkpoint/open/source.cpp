#include "checkpoint/open/source.h"

#include <algorithm>
#include <array>
#include <span>

#include "cairn/error.h"

#include "checkpoint/open/formats/candidate.h"
#include "checkpoint/open/formats/compressed_source.h"
#include "checkpoint/open/guarded_source.h"
#include "checkpoint/open/read_storages.h"
#include "format/find_format.h"
#include "format/zip/directory.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/local/links.h"
#include "storage/place.h"

namespace cairn {
namespace {

// The rows are in the order in which the formats are tried.
std::span<const FormatRow> formats() {
  static const std::array rows = {
      kDcpFormat,
      kDeepSpeedFormat,
      kDeflatedZipFormat,
      kTorchZipFormat,
      kTorchLegacyFormat,
      compression<kGzip>(),
      compression<kBzip2>(),
      compression<kXz>(),
      compression<kLz4>(),
      compression<kZstd>(),
      compression<kLzop>(),
      kRankTarFormat,
      kTarFormat,
      kShardIndexFormat,
      kModelFolderFormat,
      kDcpSafetensorsFormat,
      // Formats without a magic number come last. They are recognised by a few bytes with which
      // other formats are unlikely to begin.
      compression<kLzma>(),
      kSafetensorsFormat,
      // The length of a safetensors header may look like the first opcode of a pickle.
      kPickleFormat,
  };
  return rows;
}

// A tar in a gzip in a zstd is odd; ten containers are an attack.
constexpr std::size_t kMaxContainers = 4;

// Returns `path`, or the target of a pointer if `path` is the object that holds it. Users may give
// the name of that object, too, but the files of a folder are found only by the folder's own name.
std::string follow_pointer(ObjectStore& store, const std::string& path) {
  if (path.ends_with(kLinkFile)) {
    const auto pointer = store.read_pointer(path.substr(0, path.size() - kLinkFile.size()));
    return pointer && !pointer->is_broken() ? pointer->target : path;
  }
  return path;
}

void set_file(Candidate& candidate, std::shared_ptr<const ByteSource> file) {
  candidate.stored_bytes = file->size();
  candidate.set_content(std::move(file));
}

// Opens a file without a stat first, which saves one request in a far store. A name without a dot
// ("ep1-ba5") may be the name of a folder, so this is checked first. Returns nullptr for a folder.
std::shared_ptr<const ByteSource> open_unless_folder(ObjectStore& store, const std::string& path) {
  const bool may_be_folder = base_name(path).find('.') == std::string::npos;
  if (may_be_folder && is_folder(store, path)) return nullptr;
  try {
    return store.open(path);
  } catch (const UsageError&) {
    if (!is_folder(store, path)) throw;
  } catch (const NotFoundError&) {
    if (is_folder(store, path)) return nullptr;
    if (!store.restore(path)) throw;
    if (!is_folder(store, path)) return store.open(path);
  }
  return nullptr;
}

Candidate look_at(const std::shared_ptr<ObjectStore>& store, const std::string& path,
                  const OpenOptions& options) {
  Candidate candidate{.store = store,
                      .path = path,
                      .scratch_folder = options.scratch_folder,
                      .on_progress = options.on_progress,
                      .access = options.access};
  if (auto file = open_unless_folder(*store, path)) {
    set_file(candidate, std::move(file));
    return candidate;
  }
  candidate.is_folder = true;
  const auto pointer = store->read_pointer(path);
  if (pointer && !pointer->is_broken()) candidate.path = pointer->target;
  return candidate;
}

[[noreturn]] void refuse(const Candidate& candidate) {
  if (candidate.is_folder) {
    throw UsageError(candidate.path + " is a folder, but not a checkpoint by itself; name " +
                     "a file in it");
  }
  std::string where = candidate.path;
  for (const std::string& container : candidate.containers) {
    where += (&container == candidate.containers.data() ? ", inside " : ", ") + container;
  }
  refuse_format(candidate.source, where, "a checkpoint that cairn reads");
}

// Does the work of open_source(), unguarded. At the end, releases the bytes that were read ahead
// for recognising.
std::unique_ptr<CheckpointSource> recognise(Candidate candidate) {
  std::vector<std::shared_ptr<Windows>> sources = {candidate.source};
  while (candidate.containers.size() <= kMaxContainers) {
    const auto row = std::ranges::find_if(
        formats(), [&](const FormatRow& format) { return format.matches(candidate); });
    if (row == formats().end()) refuse(candidate);
    if (row->open != nullptr) {
      auto opened = row->open(std::move(candidate));
      for (const auto& source : sources) {
        if (source) source->forget();
      }
      return opened;
    }
    candidate = row->unwrap(std::move(candidate));
    candidate.containers.emplace_back(row->name);
    sources.push_back(candidate.source);
  }
  throw UnsupportedError(candidate.path + ": more than " + std::to_string(kMaxContainers) +
                         " containers inside one another");
}

}  // namespace

void Candidate::set_content(std::shared_ptr<const ByteSource> content) {
  constexpr std::uint64_t kStartBytes = 1024;
  constexpr std::uint64_t kHeaderBytes = std::uint64_t{1} << 20;
  source = std::make_shared<Windows>(std::move(content));
  // The name decides only how much to read with the first request.
  if (path.ends_with(".safetensors")) {
    source->fetch({{0, kHeaderBytes}});
  } else {
    zip::fetch_ends(*source);
  }
  start = read_start(*source, kStartBytes);
}

VerifyReport CheckpointSource::verify(Verify how) const {
  PendingReads none({});
  return check(none, how);
}

VerifyReport CheckpointSource::read_into(const std::vector<StorageRead>& reads, Verify how,
                                         const std::atomic<bool>* ended) const {
  PendingReads pending(reads, ended);
  return read_into(pending, how);
}

VerifyReport CheckpointSource::read_into(PendingReads& reads, Verify how) const {
  VerifyReport report = check(reads, how);
  if (report.ok()) reads.finish(how == Verify::kQuick ? Access::kRaw : Access::kVerified);
  return report;
}

KnownFormats known_formats() {
  KnownFormats known;
  for (const FormatRow& row : formats()) {
    auto& names = row.open != nullptr ? known.formats : known.containers;
    if (std::ranges::find(names, row.name) == names.end()) names.emplace_back(row.name);
  }
  return known;
}

std::unique_ptr<CheckpointSource> open_source(const std::string& path, const OpenOptions& options) {
  const auto store = store_of(path, options.store);
  const std::string there = follow_pointer(*store, options.store ? path : shown_place(path));
  return guard_source(guarded(there, [&] { return recognise(look_at(store, there, options)); }),
                      there);
}

std::unique_ptr<CheckpointSource> open_file_source(std::shared_ptr<const ByteSource> file,
                                                   const std::string& path,
                                                   const OpenOptions& options) {
  Candidate candidate{.store = store_of(path, options.store),
                      .path = path,
                      .scratch_folder = options.scratch_folder,
                      .on_progress = options.on_progress,
                      .access = options.access};
  return guard_source(guarded(path,
                              [&] {
                                set_file(candidate, std::move(file));
                                return recognise(std::move(candidate));
                              }),
                      path);
}

std::string without_path(const std::string& message, const std::string& path) {
  const std::string prefix = path + ": ";
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

}  // namespace cairn
