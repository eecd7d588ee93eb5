// Maps an open file, and lets readers notice when the disk fails.
//
// A page of a mapped file may be unreadable: a bad block, a file that was cut off, a server that
// has forgotten it. No call reports this as an error: the thread gets SIGBUS, which ends the
// process. While a GuardedReads lives, SIGBUS becomes an error:
//
//  1. map_descriptor() notes each mapping in a list. The end of the mapping removes it again.
//  2. The first GuardedReads installs a handler of SIGBUS, for good.
//  3. If the address lies in one of the mappings and a GuardedReads lives, the handler replaces the
//     page, and all later ones of that mapping, by zeros. The handler notes where these zeros
//     begin, and lets the thread continue. Otherwise it calls the previous handler.
//  4. check_mapped_reads() throws if a mapping has such zeros, or its file was written to since it
//     was opened. It also throws, once, for a mapping that ended in this state while a GuardedReads
//     lived. After the end, a write to the file is reported only to a caller that asks for the
//     file's path. A reader under a GuardedReads calls check_mapped_reads() before it relies on
//     what it read, and before it reports damage.
//  5. Nothing is published while there are such zeros: AtomicFile::commit() checks all mappings for
//     them. It does not check whether mapped files were written to: they may have nothing to do
//     with what is published.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "cairn/bytes.h"

namespace cairn {

// Maps the first `size` bytes, read-only. The descriptor may be closed afterwards. `name` is for
// the StorageError. `check_unchanged` throws if the file is not what it was. A later failure of the
// mapping then concerns readers of `name`, or of a folder around it. `check_unchanged` is null for
// a scratch file: no other process can write to it, its name is only for messages, and its failure
// concerns all readers.
SharedBytes map_descriptor(int fd, std::size_t size, const std::string& name,
                           std::function<void()> check_unchanged = nullptr);

// Maps the first `size` bytes for reading and writing. Changes go to memory, not to the file. Other
// code than cairn's uses this mapping, so nothing here guards it: a page that cannot be read raises
// SIGBUS. Throws as above.
SharedBytes map_privately(int fd, std::size_t size, const std::string& name);

// While one lives, in whatever thread, unreadable pages are zeros instead of SIGBUS. The thread
// that made a GuardedReads must also destroy it, and check what was read. The threads of its
// for_each_parallel() are guarded, too.
class GuardedReads {
 public:
  GuardedReads();
  ~GuardedReads();
  GuardedReads(const GuardedReads&) = delete;
  GuardedReads& operator=(const GuardedReads&) = delete;
};

// Whether this thread has a GuardedReads. A thread without one never checks for unreadable pages,
// whatever other threads do. So it should read files rather than map them.
bool reads_are_guarded();

// Throws UnreadableError, with file and byte, if a mapping could not be read or its file was
// written to. Checks mappings of `path` and of files below it, and scratch files. An empty path
// stands for all mappings. Thread-safe.
void check_mapped_reads(const std::string& path = {});
// As above for all mappings, but only for pages that could not be read.
void check_mapped_pages();

}  // namespace cairn
