// Files that another process may still be using.
#pragma once

#include <string>

namespace cairn {

// Whether another living process is writing the file: it holds the lock of one of cairn's writers,
// or has the file open for writing. The kernel does not tell the latter for other users' files or
// on network file systems. False for anything that is not a file, and if it cannot be determined.
bool is_being_written(const std::string& path);

// Whether any other descriptor or mapping of the file exists, in this process or another. `fd` is
// open for writing. Also true wherever the kernel does not know for certain: on all file systems
// except local disk ones, and for other users' files.
//
// This function does not see readers that reach a file without having it open: an NFS client of
// protocol 3 between two reads from this machine's disk, or a bind mount of the single file.
bool is_open_elsewhere(int fd);

}  // namespace cairn
