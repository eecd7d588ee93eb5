#include "io/atomic_folder.h"

#include <fmt/format.h>

#include <utility>

#include "cairn/error.h"

#include "io/atomic_file.h"
#include "io/mapped_file.h"

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

// What is left is a leftover, which remove_leftovers() knows.
void remove_folder_quietly(FileSystem& files, std::string folder) {
  try {
    if (name_before_replacement(base_name(folder))) {
      // Half of it must not come back under its old name.
      const std::string unnamed = temporary_name(folder);
      files.rename(folder, unnamed, false);
      folder = unnamed;
    }
    for (const std::string& name : files.list(folder)) {
      files.remove(join_path(folder, name));
    }
    files.remove_folder(folder);
  } catch (const Error&) {
    return;
  }
}

}  // namespace

AtomicFolder::AtomicFolder(FileSystem& files, const std::string& path, bool overwrite,
                           std::string_view suffix)
    : files_(files), path_(normal_path(path)), overwrite_(overwrite) {
  finish_replacement_of(files_, path_);
  is_in_the_way(files_, path_, overwrite_);  // before the work; commit() makes sure
  do {  // a cleaner may take a new folder for a dead one before it is locked: then once more
    temporary_ = suffix.empty() ? temporary_name(path_) : temporary_name(path_, suffix);
    files_.make_folders(temporary_);
    lock_ = files_.lock_folder(temporary_);
  } while (!files_.stat(temporary_));
}

AtomicFolder::~AtomicFolder() {
  if (temporary_.empty()) return;
  try {
    remove_folder_quietly(files_, temporary_);
  } catch (...) {
    return;  // no Error: a test's crash
  }
}

std::unique_ptr<WritableFile> AtomicFolder::create(const std::string& name,
                                                   std::uint64_t expected_bytes) {
  return files_.create(join_path(temporary_, name), {.expected_bytes = expected_bytes});
}

void AtomicFolder::commit() {
  check_mapped_pages();  // what was read may be in these files
  files_.sync_folder(temporary_);
  std::string old;
  if (is_in_the_way(files_, path_, overwrite_)) {
    const auto old_lock = files_.lock_folder(path_);
    old = replace();
    files_.sync_folder(parent_path(path_));
  } else {
    files_.rename(temporary_, path_, false);
    temporary_.clear();
    files_.sync_folder(parent_path(path_));
  }
  lock_.reset();
  if (!old.empty()) remove_folder_quietly(files_, old);
}

// Steps 4; the name that the old folder has then.
std::string AtomicFolder::replace() {
  if (!files_.exchange(temporary_, path_)) return replace_in_two_steps();
  return std::exchange(temporary_, {});
}

std::string AtomicFolder::replace_in_two_steps() {
  std::string old = replaced_name(path_, temporary_suffix(temporary_));
  files_.rename(path_, old, false);
  try {
    files_.rename(temporary_, path_, false);
  } catch (const Error&) {
    const bool is_done = !files_.stat(temporary_) && files_.stat(path_);
    if (!is_done) {
      files_.rename(old, path_, false);
      throw;
    }
  }
  temporary_.clear();
  return old;
}

namespace {

// Whether `name` in `folder` is half of a replacement, which is whole now.
bool finish_one(FileSystem& files, const std::string& folder, const std::string& name,
                const std::string& target) {
  const std::string path = join_path(folder, target);
  if (files.stat(path, false)) return false;  // replaced; `name` is the old one, and superfluous
  const std::string built = temporary_name(path, temporary_suffix(name));
  try {
    files.rename(files.stat(built, false) ? built : join_path(folder, name), path, false);
  } catch (const Error&) {
    if (!files.stat(path, false)) throw;
  }
  return true;  // by us, or somebody else
}

}  // namespace

std::vector<std::string> finish_replacements(FileSystem& files, const std::string& folder) {
  std::vector<std::string> finished;
  for (const std::string& name : files.list(folder)) {
    const auto target = name_before_replacement(name);
    if (target && finish_one(files, folder, name, *target)) finished.push_back(*target);
  }
  if (!finished.empty()) files.sync_folder(folder);
  return finished;
}

bool finish_replacement_of(FileSystem& files, const std::string& path) {
  const std::string wanted = normal_path(path);
  const std::string folder = parent_path(wanted);
  try {
    if (files.stat(wanted, false)) return false;
    for (const std::string& name : files.list(folder)) {
      if (name_before_replacement(name) != base_name(wanted)) continue;
      if (!finish_one(files, folder, name, base_name(wanted))) continue;
      files.sync_folder(folder);
      return true;
    }
  } catch (const Error&) {
    // Nobody may write here, say.
  }
  return false;
}

}  // namespace cairn
