// Mapping an open file, and reading from it when the disk fails.
//
// A page of a mapped file that cannot be brought in (a bad block, a file that somebody cut off, a
// server that has forgotten it) is no error of any call: the thread gets SIGBUS, which ends the
// process. While a GuardedReads lives it is an error:
//
//  1. map_descriptor() notes each mapping in a list; the end of the mapping takes it out again.
//  2. The first GuardedReads installs a handler of SIGBUS, for good.
//  3. The handler, when the address lies in one of the mappings and a GuardedReads lives: zeros in
//     place of the page and of all behind it in that mapping; it notes where they begin, and lets
//     the thread go on. Otherwise the handler that was there before has its turn.
//  4. check_mapped_reads() throws when a mapping has such zeros, or is of a file that somebody
//     wrote to since it was opened; or had, or was, and is gone (once, and as long as a
//     GuardedReads lives; that it was written to is said only to those who ask about its path).
//     Who reads under a GuardedReads calls it before relying on what was read, and before calling
//     anything damaged.
//  5. Nothing is published while there are such zeros: AtomicFile::commit() asks for them in all
//     mappings. Not for files that were written to: those may be others' than what is published.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "cairn/bytes.h"

namespace cairn {

// The first `size` bytes, read-only; the descriptor may be closed afterwards. `name` is for the
// StorageError. `check_unchanged` throws when the file is not what it was; then what happens to it
// concerns those who read `name`, or a folder that it is in. Null of a scratch file: nobody else
// can write to it, its name is for people, and its failure concerns everybody.
SharedBytes map_descriptor(int fd, std::size_t size, const std::string& name,
                           std::function<void()> check_unchanged = nullptr);

// While one lives, in whatever thread, pages that cannot be read are zeros rather than SIGBUS. The
// thread that made it ends it, and asks what became of what it read; what for_each_parallel() does
// for it belongs to it.
class GuardedReads {
 public:
  GuardedReads();
  ~GuardedReads();
  GuardedReads(const GuardedReads&) = delete;
  GuardedReads& operator=(const GuardedReads&) = delete;
};

// Whether one of this thread's lives. Without one nobody here asks for such pages, whoever else
// does: then files are better read than mapped.
bool reads_are_guarded();

// UnreadableError that names the file, and the byte, when a mapping of `path`, or of a file below
// it, or a scratch file, could not be read, or the file was written to. An empty path stands for
// all mappings. Thread-safe.
void check_mapped_reads(const std::string& path = {});
// The same of all, but only of pages that could not be read.
void check_mapped_pages();

}  // namespace cairn
