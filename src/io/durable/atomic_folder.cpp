#include "io/durable/atomic_folder.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "cairn/error.h"

#include "core/existing.h"
#include "io/durable/atomic_file.h"
#include "io/durable/clean_up.h"
#include "io/memory/mapped_file.h"

namespace cairn {
namespace {

// Whether a folder named `target` exists and is to be replaced. Throws if something with this name
// exists that must not be replaced.
bool is_folder_to_replace(FileSystem& files, const FilePath& target, bool overwrite) {
  const std::string path = target.text();
  const auto there = files.stat(path, false);
  if (!there) return false;
  if (!overwrite) {
    refuse_existing(path);
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

void remove_folder_quietly(FileSystem& files, FilePath folder) {
  clean_up([&] {
    if (name_before_replacement(folder.name)) {
      // A half removed folder must not get its old name back.
      FilePath unnamed = temporary_path(folder);
      files.rename(folder, unnamed, false);
      folder = std::move(unnamed);
    }
    for (const std::string& name : files.list(folder.text())) {
      files.remove({folder.as_folder(), name});
    }
    files.remove_folder(folder);
  });
}

}  // namespace

AtomicFolder::AtomicFolder(FileSystem& files, FilePath path, bool overwrite,
                           std::string_view suffix)
    : files_(files), path_(std::move(path)), overwrite_(overwrite) {
  finish_replacement_of(files_, path_);
  is_folder_to_replace(files_, path_, overwrite_);  // early, before the work; commit() checks again
  do {  // a cleaner may take a new folder for a dead one before it is locked: try again
    temporary_ = suffix.empty() ? temporary_path(path_) : temporary_path(path_, suffix);
  } while (!make_temporary());
}

// Makes and locks the folder. Returns whether the folder still exists after it was locked.
bool AtomicFolder::make_temporary() {
  try {
    files_.make_folders(built());
    lock_ = files_.lock_folder(built());
    return files_.stat(temporary_->text()).has_value();
  } catch (const std::exception&) {
    remove_folder_quietly(files_, *temporary_);
    throw;
  }
}

AtomicFolder::~AtomicFolder() {
  if (!temporary_) return;
  try {
    remove_folder_quietly(files_, *temporary_);
  } catch (...) {
    return;  // not an Error: a crash that a test simulates
  }
}

std::unique_ptr<WritableFile> AtomicFolder::create(const std::string& name,
                                                   const CreateOptions& options) {
  return files_.create({built(), name}, options);
}

void AtomicFolder::commit() {
  check_mapped_pages();  // these files may contain bytes that were read from unreadable pages
  files_.sync_folder(built());
  std::optional<FilePath> old;
  if (is_folder_to_replace(files_, path_, overwrite_)) {
    const auto old_lock = files_.lock_folder(path_.as_folder());
    old = replace();
    files_.sync_folder(path_.folder);
  } else {
    files_.rename(*temporary_, path_, false);
    temporary_.reset();
    files_.sync_folder(path_.folder);
  }
  lock_.reset();
  if (old) remove_folder_quietly(files_, *old);
}

// Step 4. Returns the name that the old folder has now.
FilePath AtomicFolder::replace() {
  if (!files_.exchange(*temporary_, path_)) return replace_in_two_steps();
  FilePath old = *std::move(temporary_);
  temporary_.reset();
  return old;
}

FilePath AtomicFolder::replace_in_two_steps() {
  FilePath old = replaced_path(path_, temporary_suffix(temporary_->name));
  files_.rename(path_, old, false);
  try {
    files_.rename(*temporary_, path_, false);
  } catch (const std::exception&) {
    const bool is_done = !files_.stat(temporary_->text()) && files_.stat(path_.text());
    if (!is_done) {
      files_.rename(old, path_, false);
      throw;
    }
  }
  temporary_.reset();
  return old;
}

namespace {

// Finishes a replacement of `target`, whose previous folder is `old`, that stopped halfway. Returns
// whether there was one.
bool finish_one(FileSystem& files, const FilePath& old, const std::string& target) {
  const FilePath path = old.beside(target);
  if (files.stat(path.text(), false)) return false;  // replaced; the old folder is superfluous
  const FilePath built = temporary_path(path, temporary_suffix(old.name));
  try {
    files.rename(files.stat(built.text(), false) ? built : old, path, false);
  } catch (const Error&) {
    if (!files.stat(path.text(), false)) throw;
  }
  return true;  // finished here or by another process
}

}  // namespace

std::vector<std::string> finish_replacements(FileSystem& files, const FolderPath& folder) {
  std::vector<std::string> finished;
  for (const std::string& name : files.list(folder.text())) {
    const auto target = name_before_replacement(name);
    if (target && finish_one(files, {folder, name}, *target)) finished.push_back(*target);
  }
  if (!finished.empty()) files.sync_folder(folder);
  return finished;
}

bool finish_replacement_of(FileSystem& files, const FilePath& path) {
  try {
    if (files.stat(path.text(), false)) return false;
    for (const std::string& name : files.list(path.folder.text())) {
      if (name_before_replacement(name) != path.name) continue;
      if (!finish_one(files, path.beside(name), path.name)) continue;
      files.sync_folder(path.folder);
      return true;
    }
  } catch (const Error&) {
    // For example, this process may not write here.
  }
  return false;
}

}  // namespace cairn
