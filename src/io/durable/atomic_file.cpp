#include "io/durable/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <random>

#include "cairn/error.h"

#include "core/existing.h"
#include "io/durable/atomic_folder.h"
#include "io/durable/clean_up.h"
#include "io/durable/spare_file.h"
#include "io/memory/mapped_file.h"

namespace cairn {
namespace {

constexpr std::string_view kTemporaryPrefix = ".cairn-tmp-";
constexpr std::string_view kReplacedPrefix = ".cairn-old-";
static_assert(kReplacedPrefix.size() == kTemporaryPrefix.size());
constexpr std::size_t kRandomDigits = 16;
// File systems allow names of 255 bytes. A name that is too long with prefix and random part is
// cut.
constexpr std::size_t kLongestNamePart = 200;

// A temporary name without its random part.
std::string name_stem(const std::string& name) {
  return std::string(kTemporaryPrefix) + name.substr(0, kLongestNamePart);
}

bool ends_at_random(std::string_view name) {
  if (name.size() < kTemporaryPrefix.size() + kRandomDigits + 1) return false;
  const std::size_t random = name.size() - kRandomDigits;
  return name[random - 1] == '-' &&
         name.find_first_not_of("0123456789abcdef", random) == std::string_view::npos;
}

bool remove_one(FileSystem& files, FilePath path) {
  if (name_before_replacement(path.name)) {
    // Another folder has the previous name of this folder. Otherwise finish_replacements() would
    // have given that name back. The name of this folder must no longer say that this could happen.
    const FilePath unnamed = temporary_path(path);
    files.rename(path, unnamed, false);
    path = unnamed;
  }
  return files.remove_unlocked(path);
}

// Removes the temporary files of dead writers for which is_meant(name) is true.
std::vector<std::string> remove_dead(FileSystem& files, const FolderPath& folder,
                                     const std::function<bool(const std::string& name)>& is_meant) {
  std::vector<std::string> removed;
  try {
    if (!files.stat(folder.text())) return {};
    finish_replacements(files, folder);
  } catch (const StorageError&) {
    return {};  // a half replaced folder must not be taken for a leftover
  }
  for (const std::string& name : files.list(folder.text())) {
    if (!is_temporary_name(name) || !is_meant(name)) continue;
    try {
      if (remove_one(files, {folder, name})) removed.push_back(name);
    } catch (const Error&) {
      // Another user's file, for example. Such a file disturbs nothing, and is no reason not to
      // start.
    }
  }
  return removed;
}

void check_target(FileSystem& files, const FilePath& target, bool overwrite) {
  const std::string path = target.text();
  const auto there = files.stat(path, false);
  if (!there) return;
  if (there->type == FileInfo::Type::kFolder) {
    throw UsageError("cannot write " + path + ": a folder has that name");
  }
  if (there->type == FileInfo::Type::kOther) {  // if replaced, a device or pipe would be lost
    throw UsageError("cannot write " + path +
                     ": this is a device or a pipe, not a file; give another name");
  }
  if (!overwrite) {
    refuse_existing(path);
  }
}

// Returns false if there are no links here. The errors that mean this differ between file systems.
bool try_make_link(FileSystem& files, const std::string& target, const FilePath& path) {
  try {
    files.make_link(target, path);
    return true;
  } catch (const StorageError& e) {
    const int status = e.status();
    const bool has_none = status == EPERM || status == ENOSYS || status == EOPNOTSUPP;
    if (!has_none) throw;
    return false;
  }
}

}  // namespace

void remove_quietly(FileSystem& files, const FilePath& path) {
  try {
    clean_up([&] { files.remove(path); });
  } catch (...) {
    return;  // not an Error: a crash that a test simulates
  }
}

FilePath temporary_path(const FilePath& target, std::string_view suffix) {
  return target.beside(name_stem(target.name) + std::string(suffix));
}

std::string random_digits() {
  // Not a seeded generator: two processes, or one process twice, must never draw the same digits.
  std::random_device device;
  std::string digits;
  for (std::size_t i = 0; i < kRandomDigits; ++i) {
    digits += "0123456789abcdef"[device() % 16];
  }
  return digits;
}

std::string temporary_name(const std::string& target) { return temporary_path(target).text(); }

FilePath temporary_path(const FilePath& target) {
  return temporary_path(target, "-" + random_digits());
}

std::string_view temporary_suffix(std::string_view temporary) {
  return temporary.substr(temporary.size() - kRandomDigits - 1);
}

AtomicFile::AtomicFile(FileSystem& files, FilePath path, const Options& options)
    : files_(files), path_(std::move(path)), options_(options) {
  check_target(files_, path_, options_.overwrite);  // early, before the work; commit() checks again
  if (options.spare != nullptr) file_ = options.spare->overwrite(options_.expected_bytes);
  if (file_ != nullptr) {
    temporary_ = options.spare->release();
    return;
  }
  temporary_ = temporary_path(path_);
  file_ = files_.create(
      *temporary_,
      {.expected_bytes = options_.expected_bytes, .lock = true, .is_private = options_.is_private});
}

AtomicFile::~AtomicFile() {
  if (!temporary_) return;
  file_.reset();
  remove_quietly(files_, *temporary_);
}

void AtomicFile::write(ByteView bytes) { file_->write(bytes); }

void AtomicFile::write_shared(const SharedBytes& bytes) { file_->write_shared(bytes); }

void AtomicFile::sync() {
  check_mapped_pages();  // this file may contain bytes that were read from unreadable pages
  file_->sync();
  is_synced_ = true;
}

void AtomicFile::commit() {
  if (!is_synced_) sync();
  files_.rename(*temporary_, path_, options_.overwrite);
  temporary_.reset();
  file_->close();
  files_.sync_folder(path_.folder);
}

bool replace_link(FileSystem& files, const std::string& target, const FilePath& link) {
  const FilePath temporary = temporary_path(link);
  // A link cannot be locked, so another process's cleaner may remove it between the two calls.
  for (int attempts_left = 3;; --attempts_left) {
    if (!try_make_link(files, target, temporary)) return false;
    try {
      files.rename(temporary, link);
      break;
    } catch (const StorageError& e) {
      if (e.status() == ENOENT && attempts_left > 1) continue;
      remove_quietly(files, temporary);
      throw;
    } catch (...) {
      remove_quietly(files, temporary);
      throw;
    }
  }
  files.sync_folder(link.folder);
  return true;
}

std::vector<std::string> remove_leftovers(FileSystem& files, const FolderPath& folder) {
  return remove_dead(files, folder, [](const std::string&) { return true; });
}

void remove_leftovers_of(FileSystem& files, const FilePath& path) {
  const std::string stem = name_stem(path.name);
  try {
    remove_dead(files, path.folder, [&](const std::string& name) {
      return name_before_replacement(name) == path.name ||
             name.substr(0, name.size() - kRandomDigits - 1) == stem;
    });
  } catch (const Error&) {
    // The folder may be writable but not readable. Cleaning the folder is not required.
  }
}

bool is_temporary_name(std::string_view name) {
  return (name.starts_with(kTemporaryPrefix) || name.starts_with(kReplacedPrefix)) &&
         ends_at_random(name);
}

FilePath replaced_path(const FilePath& target, std::string_view suffix) {
  return target.beside(std::string(kReplacedPrefix) + target.name + std::string(suffix));
}

std::optional<std::string> name_before_replacement(std::string_view name) {
  if (!name.starts_with(kReplacedPrefix) || !ends_at_random(name)) return std::nullopt;
  name.remove_prefix(kReplacedPrefix.size());
  return std::string(name.substr(0, name.size() - kRandomDigits - 1));
}

}  // namespace cairn
