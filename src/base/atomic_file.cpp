#include "base/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <random>

#include "cairn/error.h"

#include "base/mapped_file.h"

namespace cairn {
namespace {

constexpr std::string_view kTemporaryPrefix = ".cairn-tmp-";
constexpr std::size_t kRandomDigits = 16;
// File systems allow names of 255 bytes; what does not fit beside prefix and random part is cut.
constexpr std::size_t kLongestNamePart = 200;

void remove_quietly(FileSystem& files, const std::string& path) {
  try {
    files.remove(path);
  } catch (...) {
    // What is left is a leftover, which remove_leftovers() knows.
  }
}

void check_target(FileSystem& files, const std::string& path, bool overwrite) {
  const auto there = files.stat(path, false);
  if (!there) return;
  if (there->type == FileInfo::Type::kFolder) {
    throw UsageError("cannot write " + path + ": a folder has that name");
  }
  if (!overwrite) {
    throw AlreadyExistsError(path + " exists already: choose another name, or allow overwriting");
  }
}

// False where there are no links: what symlink() says then differs from file system to file system.
bool try_make_link(FileSystem& files, const std::string& target, const std::string& path) {
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

std::string temporary_name(const std::string& target) {
  // Not a seeded generator: two processes, or one process twice, must never pick one name.
  std::random_device device;
  std::string name = std::string(kTemporaryPrefix) + base_name(target).substr(0, kLongestNamePart);
  name += '-';
  for (std::size_t i = 0; i < kRandomDigits; ++i) {
    name += "0123456789abcdef"[device() % 16];
  }
  return join_path(parent_path(target), name);
}

AtomicFile::AtomicFile(FileSystem& files, std::string path, const Options& options)
    : files_(files), path_(std::move(path)), options_(options) {
  check_target(files_, path_, options_.overwrite);  // before the work; commit() makes sure
  temporary_ = temporary_name(path_);
  file_ = files_.create(temporary_, {.expected_bytes = options_.expected_bytes, .lock = true});
}

AtomicFile::~AtomicFile() {
  if (temporary_.empty()) return;
  file_.reset();
  remove_quietly(files_, temporary_);
}

void AtomicFile::write(ByteView bytes) { file_->write(bytes); }

void AtomicFile::commit() {
  check_mapped_reads();  // what was read may be in this file
  file_->sync();
  files_.rename(temporary_, path_, options_.overwrite);
  temporary_.clear();
  file_->close();
  files_.sync_folder(parent_path(path_));
}

bool replace_link(FileSystem& files, const std::string& target, const std::string& link) {
  const std::string temporary = temporary_name(link);
  // A link cannot be locked: a cleaner in another process may take it between the two calls.
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
  files.sync_folder(parent_path(link));
  return true;
}

std::vector<std::string> remove_leftovers(FileSystem& files, const std::string& folder) {
  if (!files.stat(folder)) return {};
  std::vector<std::string> removed;
  for (const std::string& name : files.list(folder)) {
    if (!is_temporary_name(name)) continue;
    try {
      if (files.remove_unlocked(join_path(folder, name))) removed.push_back(name);
    } catch (const StorageError&) {
      // Another user's, say. It is in nobody's way, and no reason not to start.
    }
  }
  return removed;
}

bool is_temporary_name(const std::string& name) {
  if (!name.starts_with(kTemporaryPrefix)) return false;
  if (name.size() < kTemporaryPrefix.size() + kRandomDigits + 1) return false;
  const std::size_t random = name.size() - kRandomDigits;
  return name[random - 1] == '-' &&
         name.find_first_not_of("0123456789abcdef", random) == std::string::npos;
}

}  // namespace cairn
