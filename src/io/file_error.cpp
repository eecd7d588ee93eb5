#include "io/file_error.h"

#include <cerrno>
#include <system_error>

#include "cairn/error.h"

namespace cairn {
namespace {

// Advice for the user. Empty if only the operating system's text helps.
const char* advice(int error) {
  switch (error) {
    case ENOSPC:
      return "free space on that file system, or save elsewhere";
    case EDQUOT:
      return "your quota there is used up: remove files, or save elsewhere";
    case EFBIG:
      return "the file would exceed a size limit (see ulimit -f and the file system's own)";
    case EIO:
      return "the disk or its connection failed: check the kernel log, and save elsewhere";
    case EACCES:
    case EPERM:
      return "check the owner and permissions of the file and its folders";
    case EROFS:
      return "that file system is mounted read-only: choose another folder";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case ELOOP:
      return "a folder in the path is a link, or a link leads to itself; cairn follows no link "
             "below "
             "the folder that it saves to";
    case EMFILE:
    case ENFILE:
      return "too many files are open (see ulimit -n)";
    default:
      return "";
  }
}

bool are_bytes_lost(int error) {
  switch (error) {
    case EIO:
    case ESTALE:
    case EUCLEAN:    // ext4, XFS: a wrong checksum of the file system's own structures
    case EBADMSG:    // a wrong checksum of data that these structures point to
    case EREMOTEIO:  // the device's end of a connection
    case ENODATA:    // a medium that no longer has anything there
      return true;
    default:
      return false;
  }
}

std::string errno_message(int error, const std::string& doing) {
  return doing + ": " + std::generic_category().message(error) + " (errno " +
         std::to_string(error) + ")";
}

}  // namespace

void throw_storage_error(int error, const std::string& doing) {
  std::string message = errno_message(error, doing);
  const std::string what_to_do = advice(error);
  if (!what_to_do.empty()) message += "; " + what_to_do;
  throw StorageError(message, error, error == ENOSPC || error == EDQUOT || error == EFBIG);
}

void throw_read_error(int error, const std::string& doing) {
  if (!are_bytes_lost(error)) throw_storage_error(error, doing);
  throw UnreadableError(errno_message(error, doing) +
                            "; the disk or the server does not deliver it: check the kernel log",
                        error);
}

}  // namespace cairn
