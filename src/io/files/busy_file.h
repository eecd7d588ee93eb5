// Files that somebody is still writing.
#pragma once

#include <string>

namespace cairn {

// Whether another living process holds the lock of a writer of cairn on the file, or, as far as the
// kernel tells (not for other users' files, nor on network file systems), has it open for writing.
// False for what is no file, and for what cannot be told.
bool is_being_written(const std::string& path);

// Whether anybody besides `fd`, which is open for writing, has its file open or mapped: in this
// process or another. Also true wherever the kernel does not know for certain: on all but local
// disk file systems, and for other users' files.
//
// Not seen are those who reach a file without having it open: an NFS client of protocol 3 between
// two reads from this machine's disk, a bind mount of the single file.
bool is_open_elsewhere(int fd);

}  // namespace cairn
