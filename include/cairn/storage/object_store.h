// Where checkpoints are kept: a folder of this machine, memory, a store of the program's own.
//
//   auto store = memory_store();
//   save(value, "run/ep1.pt", {.store = store});
//   auto newest = find_latest("run", {.store = store});
//
// Everything that finds, writes, lists and removes checkpoints does it through this one interface,
// and asks features() before it relies on what not every store can do.
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

namespace cairn {

struct ObjectInfo {
  enum class Type : std::uint8_t {
    kObject,   // bytes with a name
    kFolder,   // what other names begin with, up to a slash
    kPointer,  // names another object: move_pointer()
    kOther,    // a device, a pipe: nothing that may be opened
  };
  Type type = Type::kObject;
  std::uint64_t size = 0;
  std::chrono::system_clock::time_point modified = {};
  // Differs from that of another content under the same name: an ETag, a generation. Empty for
  // folders.
  std::string version = {};
  // True if only the owner may read the object (a file of mode 0600). False in a store without
  // owners.
  bool is_private = false;
};

// A name directly below a folder.
struct ListedName {
  std::string name;
  std::optional<ObjectInfo> info = std::nullopt;  // where listing tells it without another request
};

struct ListPage {
  std::vector<ListedName> names;  // in no particular order
  std::string next = {};          // what list() takes for the next page; empty: there is none
};

struct Pointer {
  std::string target;   // the name of what it points at; empty: it exists, but names nothing
  std::string version;  // for move_pointer(); empty where the store has no conditions

  bool is_broken() const { return target.empty(); }
};

// What must hold for a write to be done. A store does not begin what it cannot check.
struct WriteCondition {
  enum class If : std::uint8_t {
    kAlways,
    kAbsent,   // nothing has that name: AlreadyExistsError otherwise
    kVersion,  // what has that name is of `version`: AlreadyExistsError otherwise
  };
  If when = If::kAlways;
  std::string version = {};

  static WriteCondition absent() { return {If::kAbsent, {}}; }
  static WriteCondition of_version(std::string version) {
    return {If::kVersion, std::move(version)};
  }
};

struct StoreFeatures {
  // begin() takes WriteCondition::of_version(); without it: UnsupportedError. kAbsent holds in
  // every store.
  bool versioned_writes = false;
  // A condition of begin() holds also against another process in the same instant, for objects of
  // any size; without it, against everything that was done before commit().
  bool fenced_writes = false;
  // A condition of move_pointer() holds also against another process in the same instant; without
  // it, against everything that was done before the call.
  bool fenced_pointers = false;
  // begin_folder(): several objects that appear at once. Without it: one by one, what the folder is
  // known by last.
  bool whole_folders = false;
  // A folder is no more than what names begin with, and "a/b.pt" is in "a" as "a.pt" is: list()
  // gives all names below with dots for slashes, and remove_folder() takes nothing but what
  // begin_folder() makes: UnsupportedError for anything else, that may have a name of its own.
  bool flat_names = false;
  // copy() is done by the server, and so is FolderWrite::copy(): no bytes come through this
  // machine.
  bool server_copies = false;
};

// An object that is being written. Nothing of that name changes before commit() has returned; the
// destructor of one that was not committed leaves nothing behind. Either write() or write_at(), not
// both. One thread at a time. After an error it is dead: it can only be destroyed.
class ObjectWrite : public ByteSink {
 public:
  // Places owned bytes, in any order; at the end there is no gap and no overlap (UsageError of
  // commit() otherwise). Stores that send parts override it; the default passes on what is next in
  // order to append(), and keeps what comes early until then. The bytes may be read, also by other
  // threads, until their owner is let go of; that must not take another call, for which the writer
  // may be waiting: whoever keeps bytes for longer copies them.
  virtual void write_at(std::uint64_t offset, SharedBytes bytes);

  // How large the pieces are, at most, that it is best given. A writer that passes them on from
  // where they are wants large ones, which is the default; one that copies them first wants what
  // the processor's cache still has of whoever put them together.
  virtual std::size_t piece_bytes() const { return std::size_t{4} << 20; }

  // Does what of commit() can be done before anybody sees the object, which takes long and fails
  // for want of room: for who publishes several together. Nothing is written behind it. Stores that
  // have nothing to do then leave the default, which does nothing.
  virtual void make_durable() {}
  // Makes the object durable and visible, in this order. AlreadyExistsError when the condition does
  // not hold (any more); StorageError. Once.
  void commit();
  // After commit(): size and version of what the store said that it has. nullopt where only another
  // request tells them.
  virtual std::optional<ObjectInfo> committed() const { return std::nullopt; }

 protected:
  virtual void publish() = 0;
  // What write_at() has in order: by default a write().
  virtual void append(const SharedBytes& bytes) { write(bytes.view); }

 private:
  std::uint64_t front_ = 0;                     // of write_at(): all before it was passed on
  std::map<std::uint64_t, SharedBytes> early_;  // behind a gap
};

struct BeginOptions {
  WriteCondition condition = {};
  std::uint64_t expected_bytes = 0;  // a hint; 0 when not known
  bool is_private = false;           // as ObjectInfo::is_private; ignored in a store without owners
};

// A folder that is being written; as ObjectWrite, all of it at once.
class FolderWrite {
 public:
  virtual ~FolderWrite() = default;
  // Begins to write the object `name`, without slashes, in it. Its commit() does not make it part
  // of a checkpoint: that of the folder does. `expected_bytes` as in BeginOptions.
  virtual std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                             std::uint64_t expected_bytes) = 0;
  // As begin(), for an object that is_private (BeginOptions). The default calls begin().
  virtual std::unique_ptr<ObjectWrite> begin_private(const std::string& name,
                                                     std::uint64_t expected_bytes) {
    return begin(name, expected_bytes);
  }
  // Copies an object of the same store into it, as ObjectStore::copy() with `from_version` does.
  // False, and nothing was done: begin(), and write its bytes. The default.
  virtual bool copy(const std::string& /*from*/, const std::string& /*name*/,
                    const std::string& /*from_version*/) {
    return false;
  }
  // Reads an object of it that was committed.
  virtual std::shared_ptr<const ByteSource> open(const std::string& name) const = 0;
  // Makes all of them durable and visible, at once, or, without features().whole_folders, what
  // readers know the folder by (`.metadata`, an index) last: until then it is no checkpoint. Once,
  // when every object is committed.
  virtual void commit() = 0;
};

// Names are UTF-8 with slashes between folders, as the store's own tools show them; "a//b" and
// "a/./b" are "a/b". Folders need not be made.
//
// Safe from several threads. Failures are StorageError, retryable() where the same call may work
// later, with a message that says describe(name). To write a store of one's own: derive, and let
// object_store_checks() (cairn/storage/object_store_checks.h) tell what is missing.
class ObjectStore {
 public:
  class Files;  // of this machine: local_store() has them

  virtual ~ObjectStore() = default;

  virtual StoreFeatures features() const { return {}; }

  // The two features below cost no request, never throw and never change. A store that passes each
  // call on to another store passes these on, too: around local_store() it is then as that one is.
  //
  // Whether a call may fail now and work later, or be done although its answer is lost. If so,
  // cairn calls again, looks at what it wrote before it relies on it, replaces only what is
  // provably its own, and reads no whole object only to judge it.
  virtual bool may_be_far() const { return true; }
  // Whether names are paths of this machine: "run/a.pt" is the file run/a.pt, which other programs
  // open, too. If so, cairn follows links to compare names, loggers upload the files, and each
  // machine of a job may have files of its own.
  virtual bool names_are_paths() const { return false; }

  // How people name it: "s3://bucket/run/ep1.pt".
  virtual std::string describe(const std::string& name) const { return name; }

  // What has this name; nullopt when nothing has. What a pointer points at is meant when `follow`;
  // nullopt then for one that leads nowhere.
  virtual std::optional<ObjectInfo> stat(const std::string& name, bool follow = true) = 0;
  // Opens an object, or what a pointer points at. NotFoundError; UsageError for a folder and for
  // what may not be opened.
  virtual std::shared_ptr<const ByteSource> open(const std::string& name) = 0;
  // Names directly in `folder`, as many as one request gives; without what is being written or
  // removed. `page` is the first one when empty, otherwise ListPage::next of the one before.
  // NotFoundError when there is no such folder, UsageError when it is none.
  virtual ListPage list(const std::string& folder, const std::string& page = {}) = 0;

  // Begins to write an object. AlreadyExistsError, now or by commit(), when the condition does not
  // hold; UsageError when a folder, a device or a pipe has that name; in a bucket, where a folder
  // is only what names begin with, perhaps not. What a killed writer leaves is no object of any
  // name.
  virtual std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                             const BeginOptions& options = {}) = 0;
  // Begins to write a folder, in place of one of that name when `overwrite`. AlreadyExistsError,
  // UsageError. The default writes its objects with begin(), and the store must outlive it; a
  // writer that is killed while it replaces a folder may then leave neither of the two.
  virtual std::unique_ptr<FolderWrite> begin_folder(const std::string& name, bool overwrite);

  // Removes an object or a pointer, for good when this returns. False when there is none, or a
  // living process is writing it. UsageError for a folder.
  virtual bool remove(const std::string& name) = 0;
  // Removes a folder with all that is in it: it is there whole, or gone, also after a crash in
  // between. False when there is none.
  virtual bool remove_folder(const std::string& name) = 0;
  // Copies an object, or what a pointer points at, as it is now: `to` appears at once. With
  // `from_version` only an object of that version. Its own name changes nothing. NotFoundError;
  // AlreadyExistsError when the condition of begin() does not hold; StorageError also when `from`
  // is of another version or changes meanwhile. The default reads and writes the bytes.
  virtual void copy(const std::string& from, const std::string& to,
                    const WriteCondition& condition = {}, const std::string& from_version = {});
  // Gives an object another name, in place of what has it; its own changes nothing. The default
  // does copy() and remove().
  virtual void rename(const std::string& from, const std::string& to);

  // nullopt when there is no pointer of that name.
  virtual std::optional<Pointer> read_pointer(const std::string& name) = 0;
  // Makes `name` point at `target`, durably, at once: whoever reads it sees the old target or the
  // new one. With `expected` only when the pointer is of that version, "" for one that is not
  // there: AlreadyExistsError otherwise.
  virtual void move_pointer(const std::string& name, const std::string& target,
                            const std::optional<std::string>& expected = std::nullopt) = 0;
  // Does the same, and returns the version that the pointer has then: empty where only another
  // request tells it, as the default does, which calls move_pointer().
  virtual std::string move_pointer_versioned(const std::string& name, const std::string& target,
                                             const std::optional<std::string>& expected) {
    move_pointer(name, target, expected);
    return {};
  }

  // Makes sure, before it matters, that `folder` can be written to, as far as that can be told.
  virtual void prepare(const std::string& /*folder*/) {}
  // Removes what killed writers left directly in `folder`: all of it, or what was to become `of`, a
  // name in it. Gives the names of what was removed. What cannot be removed is left.
  virtual std::vector<std::string> remove_leftovers(const std::string& /*folder*/,
                                                    const std::string& /*of*/ = {}) {
    return {};
  }
  // Finishes what a killed writer had done all but the last step of, so that `name` is there. False
  // when it is not.
  virtual bool restore(const std::string& /*name*/) { return false; }
  // Whether a living process is still writing the object, or one in the folder.
  virtual bool is_being_written(const std::string& /*name*/) { return false; }

 private:
  // nullptr: the store is used through the calls above alone.
  friend const Files* local_files_of(const ObjectStore& store);
  virtual const Files* local_files() const { return nullptr; }
};

// This machine's file systems: names are paths, pointers are symbolic links (or NAME.symlink files
// where there are none). One for the whole process.
std::shared_ptr<ObjectStore> local_store();

// A local_store() for one saver that keeps few checkpoints, which writes each over the file of one
// that it removed: faster than into a new file, and for the price of one more checkpoint's room.
//
// remove() keeps the file under a temporary name, on ext4 and XFS; the next begin() in its folder
// writes over it, when nobody else has it open or mapped and it has no other name. Otherwise, and
// when the store goes, it is removed. Only files that this store wrote, and nobody touched since,
// are kept, one at a time. docs/checkpoints.md says what to know before you use it: files that
// other machines read over NFS, or that are bind-mounted one by one, are not for it.
std::shared_ptr<ObjectStore> recycling_local_store();

// A new, empty store in this process's memory: for tests, and for what need not outlive it.
std::shared_ptr<ObjectStore> memory_store();

}  // namespace cairn
