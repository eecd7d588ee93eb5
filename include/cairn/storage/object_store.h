// ObjectStore: where checkpoints are kept: in a local folder, in memory, or in a store of your own.
//
//   auto store = memory_store();
//   save(value, "run/ep1.pt", {.store = store});
//   auto newest = find_latest("run", {.store = store});
//
// All code that finds, writes, lists and removes checkpoints uses this one interface. Such code
// asks features() before it relies on something that not every store can do.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/bytes.h"
#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

struct ObjectInfo {
  enum class Type : std::uint8_t {
    kObject,   // bytes with a name
    kFolder,   // a common prefix of names, up to a slash
    kPointer,  // the name of another object: move_pointer()
    kOther,    // a device or a pipe, which may not be opened
  };
  Type type = Type::kObject;
  std::uint64_t size = 0;
  std::chrono::system_clock::time_point modified = {};
  // Differs for different contents under one name: an ETag, a generation. Empty for folders.
  std::string version = {};
  // True if only the owner may read the object (a file of mode 0600). False in a store without
  // owners.
  bool is_private = false;
};

// A name directly below a folder.
struct ListedName {
  std::string name;
  std::optional<ObjectInfo> info = std::nullopt;  // if listing tells it without another request
};

struct ListPage {
  std::vector<ListedName> names;  // in no particular order
  // The argument of list() for the next page; empty: this is the last page.
  std::string next = {};
};

struct Pointer {
  std::string target;   // the name that it points at; empty: the pointer exists, but names nothing
  std::string version;  // for move_pointer(); empty if the store has no conditions

  bool is_broken() const { return target.empty(); }
};

// The condition of a write. A store refuses at once a condition that it cannot check.
struct WriteCondition {
  enum class If : std::uint8_t {
    kAlways,
    kAbsent,   // nothing has that name; otherwise AlreadyExistsError
    kVersion,  // the object of that name has `version`; otherwise AlreadyExistsError
  };
  If when = If::kAlways;
  std::string version = {};

  static WriteCondition absent() { return {If::kAbsent, {}}; }
  static WriteCondition of_version(std::string version) {
    return {If::kVersion, std::move(version)};
  }
};

struct StoreFeatures {
  // begin() takes WriteCondition::of_version(); without this feature it throws UnsupportedError.
  // kAbsent works in every store.
  bool versioned_writes = false;
  // A condition of begin() also holds against another process at the same instant, for objects of
  // any size. Without this feature it holds against everything that was done before commit().
  bool fenced_writes = false;
  // A condition of move_pointer() also holds against another process at the same instant. Without
  // this feature it holds against everything that was done before the call.
  bool fenced_pointers = false;
  // begin_folder() makes several objects visible at once. Without this feature they appear one by
  // one. The object by which readers recognise the folder appears last.
  bool whole_folders = false;
  // A folder is only a common prefix of names, and "a/b.pt" is in "a" just as "a.pt" is. So list()
  // gives all names below, with dots for slashes. remove_folder() removes only what begin_folder()
  // makes. The function throws UnsupportedError for anything else, which may have a name of its
  // own.
  bool flat_names = false;
  // The server does copy() and FolderWrite::copy(): no bytes pass through this machine.
  bool server_copies = false;
};

// An object that is being written. Nothing of that name changes before commit() has returned. If
// the ObjectWrite is destroyed without commit(), nothing is left. Use either write() or write_at(),
// not both, in one thread at a time. After an error it can only be destroyed.
class ObjectWrite : public ByteSink {
 public:
  // Writes owned bytes at `offset`; offsets may come in any order. At the end there must be no gap
  // and no overlap; otherwise commit() throws UsageError. Stores that send parts override it. The
  // default passes the bytes that are next in order to append(), and keeps bytes after a gap until
  // the gap is filled.
  //
  // The bytes may be read, also by other threads, until their owner is released. The store must not
  // wait for another call before it releases the owner, since the writer may be waiting for this
  // release. A store that keeps bytes for longer copies them.
  virtual void write_at(std::uint64_t offset, SharedBytes bytes);

  // Preferred size of one write. Zero-copy writers want large pieces (the default, 4 MiB); writers
  // that copy want pieces that fit the cache.
  virtual std::size_t piece_bytes() const { return std::size_t{4} << 20; }

  // Does the part of commit() that can be done before the object is visible: the part that takes
  // long and fails if there is no room. For callers that publish several objects together. No write
  // may follow. The default does nothing, for stores without such a part.
  virtual void make_durable() {}
  // Makes the object durable, then visible. Throws AlreadyExistsError if the condition does not
  // hold (any more); StorageError. Call it once.
  void commit();
  // After commit(): size and version as the store reported them. nullopt if they would take another
  // request.
  virtual std::optional<ObjectInfo> committed() const { return std::nullopt; }

 protected:
  virtual void publish() = 0;
  // Receives the bytes of write_at() in the order of their offsets. The default calls write().
  virtual void append(const SharedBytes& bytes) { write(bytes.view); }

 private:
  std::uint64_t front_ = 0;  // of write_at(): all bytes before it were passed to append()
  std::map<std::uint64_t, SharedBytes> early_;  // of write_at(): bytes after a gap
};

struct BeginOptions {
  WriteCondition condition = {};
  std::uint64_t expected_bytes = 0;  // a hint; 0: not known
  bool is_private = false;           // as ObjectInfo::is_private; ignored in a store without owners
};

// A folder that is being written. The rules of ObjectWrite apply, to all objects at once.
class FolderWrite {
 public:
  virtual ~FolderWrite() = default;
  // Begins to write the object `name`, without slashes, in this folder. The object's commit() does
  // not make it part of a checkpoint; the folder's commit() does. `expected_bytes` as in
  // BeginOptions.
  virtual std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                             std::uint64_t expected_bytes) = 0;
  // As begin(), for an object that is_private (BeginOptions). The default calls begin().
  virtual std::unique_ptr<ObjectWrite> begin_private(const std::string& name,
                                                     std::uint64_t expected_bytes) {
    return begin(name, expected_bytes);
  }
  // Copies an object of the same store into this folder, as ObjectStore::copy() with `from_version`
  // does. If it returns false, it did nothing: call begin() and write the bytes. The default
  // returns false.
  virtual bool copy(const std::string& /*from*/, const std::string& /*name*/,
                    const std::string& /*from_version*/) {
    return false;
  }
  // Reads an object of this folder that was committed.
  virtual std::shared_ptr<const ByteSource> open(const std::string& name) const = 0;
  // Makes all objects durable and visible at once. Without features().whole_folders, the object by
  // which readers recognise the folder (`.metadata`, an index) appears last; until then the folder
  // is no checkpoint. Call it once, when every object is committed.
  virtual void commit() = 0;
};

// Names are UTF-8 with slashes between folders, as the store's own tools show them; "a//b" and
// "a/./b" mean "a/b". Folders need not be created.
//
// Safe to use from several threads. Failures are StorageError, retryable() if the same call may
// succeed later, with a message that includes describe(name). To write a store of your own, derive
// from this class, and run object_store_checks() (cairn/storage/object_store_checks.h).
class ObjectStore {
 public:
  class Files;  // of this machine, for local_store()

  virtual ~ObjectStore() = default;

  virtual StoreFeatures features() const { return {}; }

  // The next two features cost no request, never throw and never change. A store that passes every
  // call on to another store passes these on, too, so that a wrapper of local_store() counts as
  // local.
  //
  // Whether a call may fail now and succeed later, or be done although its answer is lost. If so,
  // cairn calls again, and checks what it wrote before it relies on it. Then cairn replaces only
  // objects that are provably its own, and never reads a whole object only to judge it.
  virtual bool may_be_far() const { return true; }
  // Whether names are paths of this machine: "run/a.pt" is the file run/a.pt, which other programs
  // open, too. If so, cairn follows links to compare names, loggers upload the files, and each
  // machine of a job may have files of its own.
  virtual bool names_are_paths() const { return false; }

  // The name for people: "s3://bucket/run/ep1.pt".
  virtual std::string describe(const std::string& name) const { return name; }

  // Information about the object of this name; nullopt if there is none. If `follow` is true, the
  // information is that of the object that a pointer points at, and nullopt also means a pointer
  // that leads nowhere.
  virtual std::optional<ObjectInfo> stat(const std::string& name, bool follow = true) = 0;
  // Opens an object, or the object that a pointer points at. Throws NotFoundError; UsageError for a
  // folder and for what may not be opened (ObjectInfo::Type::kOther).
  virtual std::shared_ptr<const ByteSource> open(const std::string& name) = 0;
  // Names directly in `folder`, as many as one request gives, without objects that are being
  // written or removed. An empty `page` asks for the first page; for the next pass ListPage::next.
  // Throws NotFoundError if there is no such folder, and UsageError if the name is not a folder.
  virtual ListPage list(const std::string& folder, const std::string& page = {}) = 0;

  // Begins to write an object. Throws AlreadyExistsError, now or in commit(), if the condition does
  // not hold. Throws UsageError if a folder, a device or a pipe has that name. (A bucket, where a
  // folder is only a common prefix, may not notice a folder.) A killed writer leaves nothing that
  // is visible under a name.
  virtual std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                             const BeginOptions& options = {}) = 0;
  // Begins to write a folder. If `overwrite` is true, the new folder replaces a folder of that
  // name. Throws AlreadyExistsError, UsageError. The default writes the objects with begin(), and
  // the store must outlive the result. With the default, a writer that is killed while it replaces
  // a folder may leave neither the old nor the new one.
  virtual std::unique_ptr<FolderWrite> begin_folder(const std::string& name, bool overwrite);

  // Removes an object or a pointer, for good when this returns. Returns false if there is none, or
  // if a living process is writing it. Throws UsageError for a folder.
  virtual bool remove(const std::string& name) = 0;
  // Removes a folder with everything in it. Even after a crash in between, the folder is whole or
  // gone. Returns false if there is none.
  virtual bool remove_folder(const std::string& name) = 0;
  // Copies an object, or the object that a pointer points at, as it is now; `to` appears whole. If
  // `from_version` is not empty, copies only that version. Copying a name to itself changes
  // nothing. Throws NotFoundError; AlreadyExistsError as begin() does; StorageError, also if `from`
  // has another version or changes meanwhile. The default reads and writes the bytes.
  virtual void copy(const std::string& from, const std::string& to,
                    const WriteCondition& condition = {}, const std::string& from_version = {});
  // Gives an object another name, and replaces an object that has this name already. Renaming to
  // the same name changes nothing. The default calls copy() and remove().
  virtual void rename(const std::string& from, const std::string& to);

  // nullopt if there is no pointer of that name.
  virtual std::optional<Pointer> read_pointer(const std::string& name) = 0;
  // Makes `name` point at `target`, durably and atomically: a reader sees the old target or the new
  // one. If `expected` is set, moves the pointer only if it has that version, or, for "", if it
  // does not exist; otherwise throws AlreadyExistsError.
  virtual void move_pointer(const std::string& name, const std::string& target,
                            const std::optional<std::string>& expected = std::nullopt) = 0;
  // As move_pointer(), and returns the pointer's new version. The default calls move_pointer() and
  // returns "": the version would take another request.
  virtual std::string move_pointer_versioned(const std::string& name, const std::string& target,
                                             const std::optional<std::string>& expected) {
    move_pointer(name, target, expected);
    return {};
  }

  // Checks in advance that `folder` can be written to, as far as that can be told.
  virtual void prepare(const std::string& /*folder*/) {}
  // Removes what killed writers left directly in `folder`: everything, or only what was to become
  // `of`, a name in the folder. Returns the names that it removed. Leaves what it cannot remove.
  virtual std::vector<std::string> remove_leftovers(const std::string& /*folder*/,
                                                    const std::string& /*of*/ = {}) {
    return {};
  }
  // If a killed writer has done everything except the last step, does this step, so that `name`
  // exists. Returns false if `name` does not exist afterwards.
  virtual bool restore(const std::string& /*name*/) { return false; }
  // Whether a living process is still writing the object of this name, or an object in the folder
  // of this name.
  virtual bool is_being_written(const std::string& /*name*/) { return false; }

 private:
  // nullptr: only the calls above are used.
  friend const Files* local_files_of(const ObjectStore& store);
  virtual const Files* local_files() const { return nullptr; }
};

// This machine's file systems. Names are paths; pointers are symbolic links (or NAME.symlink files
// on file systems without links). There is one for the whole process.
std::shared_ptr<ObjectStore> local_store();

// A local_store() for one saver that keeps few checkpoints. This store writes each checkpoint over
// the file of a checkpoint that it removed. That is faster than a new file, and costs the room of
// one more checkpoint.
//
// On ext4 and XFS remove() keeps the file under a temporary name. The next begin() in the same
// folder writes over this file, unless another process has the file open or mapped, or the file has
// another name. Otherwise, and when the store is destroyed, the file is removed. Only files that
// this store wrote, and that nothing else touched, are kept, one at a time. Do not use it for files
// that other machines read over NFS, or that are bind-mounted one by one; see docs/checkpoints.md.
std::shared_ptr<ObjectStore> recycling_local_store();

// Makes a new, empty store in this process's memory: for tests, and for data that need not outlive
// it.
std::shared_ptr<ObjectStore> memory_store();

}  // namespace cairn
