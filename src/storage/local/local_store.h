// A FileSystem as a store: names are paths.
//
//  1. Objects are files that AtomicFile publishes; folders are those of AtomicFolder. list() hides
//     the leftovers of killed writers.
//  2. Pointers are links (links.h).
//  3. removal.h removes. recycling_local_store() keeps one of the removed files, to write over it
//     (recycler.h).
//  4. To create, rename or remove, the store makes a FilePath of the name. prepare() makes a folder
//     a root: no link below that folder is followed from then on. If one root lies in another, the
//     outer root counts. The root of a name outside of all these roots is the name's own folder.
#pragma once

#include <memory>

#include "cairn/storage/object_store.h"

#include "io/file.h"

namespace cairn {

// `files` must outlive the store.
std::shared_ptr<ObjectStore> local_store(FileSystem& files);
std::shared_ptr<ObjectStore> recycling_local_store(FileSystem& files);

// The interface for code that makes files without the store's calls.
class ObjectStore::Files {
 public:
  virtual ~Files() = default;
  virtual FileSystem& files() const = 0;
  // The path at which the store writes a name.
  virtual FilePath path_of(const std::string& name) const = 0;
};

// nullptr unless local_store() or recycling_local_store() made the store. A store that wraps such a
// store gives nullptr, too: the calls of the wrapper must not be bypassed.
using LocalFiles = ObjectStore::Files;
const LocalFiles* local_files_of(const ObjectStore& store);

// A new file of a folder that is being written; commit() syncs and closes it. No reader knows the
// folder yet, so the file needs no temporary name.
std::unique_ptr<ObjectWrite> begin_file(FileSystem& files, const FilePath& path,
                                        std::uint64_t expected_bytes);

}  // namespace cairn
