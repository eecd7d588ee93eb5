// A descriptor of a folder, for the calls that end in "at". They work in that folder, even if its
// name changes meanwhile.
//
//  1. The root is opened as any path is: links on its way are followed.
//  2. A folder below it is opened by openat2() with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS: the
//     kernel promises that the result is in the root.
//  3. If there is no openat2() (ENOSYS: before Linux 5.6), or a sandbox forbids it (EPERM), the
//     folders are opened one by one, each in the previous one. A folder that is a link is not
//     opened.
#pragma once

#include <sys/types.h>

#include "io/file_descriptor.h"
#include "io/file_path.h"

namespace cairn {

// Opens a folder. `flags`: O_PATH, to name things in it, or O_RDONLY, to list, lock or sync it. The
// result is not open if this fails; errno says why: ELOOP if a folder below the root is a link.
FileDescriptor open_folder(const FolderPath& folder, int flags);

// Opens a name in a folder as open() does, but never follows links. The result is not open if this
// fails; errno says why.
FileDescriptor open_at(const FilePath& path, int flags, mode_t mode = 0);

// As above, for descriptors that will hold a lock (FileDescriptor::open_for_lock()).
FileDescriptor open_folder_for_lock(const FolderPath& folder, int flags);
FileDescriptor open_at_for_lock(const FilePath& path, int flags, mode_t mode = 0);

// Opens a file that is to be locked. Opens it for writing, because NFS gives exclusive locks only
// on such descriptors. If writing is forbidden (EACCES, EPERM, EROFS), opens it for reading.
// `create`: O_CREAT, or 0.
FileDescriptor open_to_lock(const FilePath& path, int create = 0);
// As flock(), whatever signals come. Returns errno, or 0.
int lock_opened(const FileDescriptor& fd, int operation);
// Whether errno says that a file may not be opened in that way.
bool is_forbidden(int error);

// Makes what was created, renamed and removed in a folder survive a power cut. Returns errno, or 0.
// Also returns 0 if the file system has nothing to sync for a folder (EINVAL or EOPNOTSUPP of some
// network file systems).
int sync_opened_folder(const FileDescriptor& folder);

}  // namespace cairn
