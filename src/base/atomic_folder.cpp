#include "base/atomic_folder.h"

#include <fmt/format.h>

#include "cairn/error.h"

#include "base/atomic_file.h"

namespace cairn {
namespace {

// Whether a folder stands there, to be replaced; throws for what may not be.
bool is_in_the_way(FileSystem& files, const std::string& path, bool overwrite) {
  const auto there = files.stat(path, false);
  if (!there) return false;
  if (!overwrite) {
    throw AlreadyExistsError(path + " exists already: choose another name, or allow overwriting");
  }
  if (there->type != FileInfo::Type::kFolder) {
    throw UsageError("cannot write the folder " + path + ": a file or link has that name");
  }
  for (const std::string& name : files.list(path)) {
    const auto inside = files.stat(join_path(path, name), false);
    if (inside && inside->type == FileInfo::Type::kFolder) {
      throw UsageError(
          fmt::format("cannot replace {}: it holds the folder {}; remove it first", path, name));
    }
  }
  return true;
}

void remove_flat(FileSystem& files, const std::string& folder) {
  for (const std::string& name : files.list(folder)) {
    files.remove(join_path(folder, name));
  }
  files.remove_folder(folder);
}

}  // namespace

AtomicFolder::AtomicFolder(FileSystem& files, const std::string& path, bool overwrite)
    : files_(files), path_(normal_path(path)), overwrite_(overwrite) {
  is_in_the_way(files_, path_, overwrite_);  // before the work; commit() makes sure
  temporary_ = temporary_name(path_);
  files_.make_folders(temporary_);
}

AtomicFolder::~AtomicFolder() {
  if (temporary_.empty()) return;
  try {
    remove_flat(files_, temporary_);
  } catch (...) {
    // It is in nobody's way.
  }
}

void AtomicFolder::add(const std::string& name, std::uint64_t expected_bytes,
                       const std::function<void(ByteSink&)>& fill) {
  const auto file = files_.create(join_path(temporary_, name), {.expected_bytes = expected_bytes});
  fill(*file);
  file->sync();
  file->close();
}

void AtomicFolder::commit() {
  files_.sync_folder(temporary_);
  std::string old;
  if (is_in_the_way(files_, path_, overwrite_)) {
    old = temporary_name(path_);
    files_.rename(path_, old, false);
  }
  files_.rename(temporary_, path_, false);
  temporary_.clear();
  files_.sync_folder(parent_path(path_));
  if (!old.empty()) remove_flat(files_, old);
}

}  // namespace cairn
