#include "io/files/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <vector>

#include "cairn/error.h"

#include "io/durable/clean_up.h"
#include "io/file.h"
#include "io/file_error.h"
#include "io/memory/scratch_file.h"

namespace cairn {
namespace {

// Leaves anything that cannot be removed.
void remove_all(const std::string& path) noexcept {
  try {
    clean_up([&] { remove_tree(posix_file_system(), path); });
  } catch (const std::exception&) {
    return;
  }
}

bool is_own_folder(const std::string& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

void remove_leftovers_of_killed(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> names;
  try {
    names = posix_file_system().list(folder);
  } catch (const Error&) {  // creating a folder here reports the error
  }
  for (const std::string& name : names) {
    const std::string path = join_path(folder, name);
    if (!name.starts_with(prefix + "-") || !is_own_folder(path)) continue;
    const auto lock = posix_file_system().lock_folder(path);
    if (lock != nullptr) remove_all(path);
  }
}

}  // namespace

PrivateFolder::PrivateFolder(const std::string& prefix, const std::string& folder) {
  const std::string where = temporary_folder(folder);
  remove_leftovers_of_killed(where, prefix);
  // A cleaner could take a new folder for that of a killed process before it is locked: try again.
  for (int attempt = 0; attempt < 3; ++attempt) {
    path_ = join_path(where, prefix + "-XXXXXX");
    if (mkdtemp(path_.data()) == nullptr) {
      throw_storage_error(errno, "cannot create a folder in " + shown_temporary_folder(folder));
    }
    try {
      lock_ = posix_file_system().lock_folder(path_);
    } catch (const std::exception&) {
      remove_all(path_);
      throw;
    }
    // If this process did not get the lock, another process has it, and removes the folder. Where
    // there are no locks, no process has one.
    const bool is_last_try = attempt == 2;
    if ((lock_ != nullptr || is_last_try) && is_own_folder(path_)) return;
  }
  throw_storage_error(ENOENT, "cannot keep a folder in " + where);
}

PrivateFolder::~PrivateFolder() { remove_all(path_); }

}  // namespace cairn
