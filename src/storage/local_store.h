// A FileSystem as a store: names are paths.
//
//  1. Objects are files that AtomicFile publishes, folders those of AtomicFolder; what they leave
//     when they are killed is hidden from list().
//  2. Pointers are links.h's.
//  3. Removing is removal.h's; recycling_local_store() keeps one file of what it removes, to write
//     over it (recycler.h).
#pragma once

#include <memory>

#include "cairn/storage/object_store.h"

#include "io/file.h"

namespace cairn {

// `files` must outlive it.
std::shared_ptr<ObjectStore> local_store(FileSystem& files);
std::shared_ptr<ObjectStore> recycling_local_store(FileSystem& files);

// Whether it is one of these. All others may be far away: a call may have to be made again, its
// answer may be lost, and other machines write there.
bool is_local(const ObjectStore& store);

// The file system of one that is.
FileSystem& files_of(const ObjectStore& local);

// A new file of a folder that is being written: commit() syncs and closes it. Nobody knows the
// folder yet, so the file needs no temporary name of its own.
std::unique_ptr<ObjectWrite> begin_file(FileSystem& files, const std::string& path,
                                        std::uint64_t expected_bytes);

}  // namespace cairn
