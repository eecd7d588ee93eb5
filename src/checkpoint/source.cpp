#include "checkpoint/source.h"

#include <algorithm>
#include <array>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "base/atomic_folder.h"
#include "checkpoint/candidate.h"
#include "checkpoint/compressed_source.h"
#include "checkpoint/guarded_source.h"
#include "checkpoint/latest_link.h"
#include "checkpoint/read_storages.h"
#include "format/find_format.h"

namespace cairn {
namespace {

constexpr std::array kFormats = {
    FormatRow{"dcp", is_dcp, open_dcp},
    FormatRow{"deepspeed", is_deepspeed, open_deepspeed},
    FormatRow{"torch_zip", is_torch_zip, open_torch_zip},
    FormatRow{"torch_legacy", is_torch_legacy, open_torch_legacy},
    FormatRow{"gzip", is_compressed<kGzip>, nullptr, decompress_by<kGzip>},
    FormatRow{"bzip2", is_compressed<kBzip2>, nullptr, decompress_by<kBzip2>},
    FormatRow{"xz", is_compressed<kXz>, nullptr, decompress_by<kXz>},
    FormatRow{"lz4", is_compressed<kLz4>, nullptr, decompress_by<kLz4>},
    FormatRow{"zstd", is_compressed<kZstd>, nullptr, decompress_by<kZstd>},
    FormatRow{"lzop", is_compressed<kLzop>, nullptr, decompress_by<kLzop>},
    FormatRow{"tar", is_tar, nullptr, unwrap_tar},
    FormatRow{"safetensors_index", is_shard_index, open_shard_index},
    FormatRow{"safetensors_index", is_model_folder, open_model_folder},
    FormatRow{"dcp_safetensors", is_dcp_safetensors, open_dcp_safetensors},
    // Last those without a magic number: a few bytes that others are unlikely to begin with.
    FormatRow{"lzma", is_compressed<kLzma>, nullptr, decompress_by<kLzma>},
    FormatRow{"safetensors", is_safetensors, open_safetensors},
    // The length of a safetensors header may look like the first opcode of a pickle.
    FormatRow{"pickle", is_pickle, open_pickle},
};

// A tar in a gzip in a zstd is odd; ten of them are an attack.
constexpr std::size_t kMostContainers = 4;

// `path`, or what it names where links are text files.
std::string follow_link_file(FileSystem& files, const std::string& path) {
  if (path.ends_with(kLinkFile)) return read_link_file(files, path).value_or(path);
  if (files.stat(path)) return path;
  return read_link_file(files, path + std::string(kLinkFile)).value_or(path);
}

Candidate look_at(FileSystem& files, const std::string& path, const OpenOptions& options) {
  Candidate candidate{.files = &files,
                      .path = path,
                      .scratch_folder = options.scratch_folder,
                      .on_progress = options.on_progress};
  auto info = files.stat(candidate.path);
  if (!info && finish_replacement_of(files, candidate.path)) info = files.stat(candidate.path);
  candidate.is_folder = info && info->type == FileInfo::Type::kFolder;
  if (!candidate.is_folder) {
    candidate.source = files.open(candidate.path);
    candidate.bytes = candidate.source->view(0, candidate.source->size());
  }
  candidate.stored_bytes = candidate.bytes.view.size();
  return candidate;
}

[[noreturn]] void refuse(const Candidate& candidate) {
  if (candidate.is_folder) {
    throw UsageError(candidate.path +
                     " is a folder, and none that is a checkpoint by itself; name " +
                     "a file in it");
  }
  std::string where = candidate.path;
  for (const std::string& container : candidate.containers) {
    where += (&container == candidate.containers.data() ? ", inside " : ", ") + container;
  }
  const std::string what = where + ": this is " + describe_bytes(candidate.bytes.view) +
                           ", not a checkpoint that cairn reads";
  if (find_format(candidate.bytes.view)) throw UnsupportedError(what);
  throw CorruptError(what, candidate.path, 0);
}

// What open_source() gives, unguarded.
std::unique_ptr<CheckpointSource> recognise(Candidate candidate) {
  while (candidate.containers.size() <= kMostContainers) {
    const auto* row = std::find_if(kFormats.begin(), kFormats.end(), [&](const FormatRow& format) {
      return format.matches(candidate);
    });
    if (row == kFormats.end()) refuse(candidate);
    if (row->open != nullptr) return row->open(std::move(candidate));
    candidate = row->unwrap(std::move(candidate));
    candidate.containers.emplace_back(row->name);
  }
  throw UnsupportedError(candidate.path + ": more than " + std::to_string(kMostContainers) +
                         " containers inside one another");
}

}  // namespace

VerifyReport CheckpointSource::read_into(const std::vector<StorageRead>& reads, Verify how) const {
  read_storages(reads);
  return verify(how);
}

KnownFormats known_formats() {
  KnownFormats known;
  for (const FormatRow& row : kFormats) {
    (row.open != nullptr ? known.formats : known.containers).emplace_back(row.name);
  }
  return known;
}

std::unique_ptr<CheckpointSource> open_source(const std::string& path, const OpenOptions& options) {
  FileSystem& files = options.files != nullptr ? *options.files : posix_file_system();
  const std::string there = follow_link_file(files, path);
  return guard_source(guarded(there, [&] { return recognise(look_at(files, there, options)); }),
                      there);
}

std::string without_path(const std::string& message, const std::string& path) {
  const std::string prefix = path + ": ";
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

}  // namespace cairn
