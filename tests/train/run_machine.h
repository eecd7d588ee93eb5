// The machine of a simulated job: a disk, a far store, and a process that may die at any call.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/error.h"
#include "cairn/storage/object_store.h"

#include "io/bytes/source_part.h"
#include "io/file_error.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/sim_file_system.h"
#include "testing/temp_folder.h"
#include "testing/watched_store.h"

namespace cairn::testing {

// Where a run saves, and where its checkpoints are uploaded to.
enum class Where : std::uint8_t {
  kLocal,      // A simulated disk.
  kRecycling,  // A simulated disk, on which saves overwrite retired files.
  kFar,        // A store in memory that counts as far away.
  kUploads,    // A real folder; a logger uploads from it to a store in memory.
};

// Decides at each call of a process whether the call works, fails or ends the process. Thread-safe.
class Fate {
 public:
  enum class Verdict : std::uint8_t { kWorks, kFails, kDies };

  // The n-th call from now, counted from 1, is the last one of the process.
  void kill_in(std::uint64_t n) { kill_at_ = calls_ + n; }
  void kill() { is_dead_ = true; }
  // The n-th call from now fails with errno `error`.
  void fail_in(std::uint64_t n, int error) {
    error_ = error;
    fail_at_ = calls_ + n;
  }
  // Cancels a fault that has not happened yet.
  void spare() { fail_at_ = 0; }

  Verdict next_call() {
    const std::uint64_t call = ++calls_;
    if (is_dead_) return Verdict::kDies;
    if (call == kill_at_) is_dead_ = true;
    if (call == fail_at_) has_failed_ = true;
    return is_dead_ ? Verdict::kDies : call == fail_at_ ? Verdict::kFails : Verdict::kWorks;
  }
  bool is_dead() const { return is_dead_; }
  // Whether a call has failed since the previous call of take_failed().
  bool take_failed() { return has_failed_.exchange(false); }
  int error() const { return error_; }

 private:
  std::atomic<std::uint64_t> calls_ = 0;
  std::atomic<std::uint64_t> kill_at_ = 0;
  std::atomic<std::uint64_t> fail_at_ = 0;
  std::atomic<int> error_ = 0;
  std::atomic<bool> is_dead_ = false;
  std::atomic<bool> has_failed_ = false;
};

class Machine {
 public:
  explicit Machine(Where where, int link_error) : where_(where) {
    if (where == Where::kLocal || where == Where::kRecycling) {
      disk_ = std::make_unique<SimFileSystem>();
      if (link_error != 0) disk_->refuse_links(link_error);
      disk_->make_folders("/runs");
    }
  }

  Where where() const { return where_; }
  // The path of the save folder with that name.
  std::string path(const std::string& name) const {
    if (where_ == Where::kFar) return "runs/" + name;
    return where_ == Where::kUploads ? folder_ / name : "/runs/" + name;
  }
  // The store of the save folders, as another program sees it.
  std::shared_ptr<ObjectStore> here() const {
    if (where_ == Where::kFar) return far_;
    return disk_ == nullptr ? local_store() : local_store(*disk_);
  }
  // The store of the uploads, or of the save folders themselves.
  std::shared_ptr<ObjectStore> far() const { return far_; }

  // A process's view of the machine. The machine must outlive it.
  struct Process {
    Fate fate;
    std::unique_ptr<FaultyFileSystem> files;  // Null if there is no simulated disk.
    std::shared_ptr<ObjectStore> here;
    std::shared_ptr<ObjectStore> far;  // Null if there are no uploads.
  };
  std::unique_ptr<Process> start() {
    auto process = std::make_unique<Process>();
    const bool has_far = where_ == Where::kFar || where_ == Where::kUploads;
    const auto far = has_far ? watched(process->fate) : nullptr;
    if (where_ == Where::kFar) {
      process->here = far;
      return process;
    }
    FileSystem& under = disk_ != nullptr ? static_cast<FileSystem&>(*disk_) : posix_file_system();
    process->files = std::make_unique<FaultyFileSystem>(under);
    process->files->before_each(
        [this, &fate = process->fate](FileCall call, std::uint64_t) { obey(fate, call); });
    process->here = where_ == Where::kRecycling ? recycling_local_store(*process->files)
                                                : local_store(*process->files);
    process->far = far;
    return process;
  }

  // Call it after a process was killed and destroyed. `draw(n)` returns a number below n. These
  // numbers decide which unsynced data the disk loses. If `draw` is null, only the process died,
  // and the disk loses nothing.
  void restart(const std::function<std::uint64_t(std::uint64_t)>& draw) {
    if (disk_ == nullptr) return;
    disk_ = draw ? disk_->after_power_loss(draw) : disk_->after_kill();
  }

  // Moves a save folder to another path.
  void move(const std::string& from, const std::string& to) {
    if (disk_ != nullptr) {
      disk_->rename(FilePath(path(from)), FilePath(path(to)), /*overwrite=*/false);
      disk_->sync_folder("/runs");
    } else if (where_ == Where::kUploads) {
      std::filesystem::rename(path(from), path(to));
    } else {
      move_objects(path(from), path(to));
    }
  }

 private:
  // Calls of a dead process do nothing. They throw an ordinary error, because nothing else ends the
  // threads of a Trainer that only look at the store.
  [[noreturn]] static void throw_dead() { throw StorageError("the process is dead", EIO); }

  // Throws the file system's error if the call fails or the process dies. If the process dies at a
  // write to the simulated disk, half of the write is done.
  void obey(Fate& fate, FileCall call) {
    const bool was_dead = fate.is_dead();
    const Fate::Verdict verdict = fate.next_call();
    if (verdict == Fate::Verdict::kWorks) return;
    if (verdict == Fate::Verdict::kDies) {
      if (disk_ == nullptr || was_dead || call != FileCall::kWrite) throw_dead();
      disk_->crash_at(disk_->operations() + 1);
      return;
    }
    const bool only_looks = call == FileCall::kOpen || call == FileCall::kRead ||
                            call == FileCall::kReadLink || call == FileCall::kStat ||
                            call == FileCall::kList;
    if (only_looks) throw_read_error(fate.error(), "injected fault");
    throw_storage_error(fate.error(), "injected fault");
  }

  // A store whose calls fail either before they are done, or afterwards, so that only the answer is
  // lost. No fault is retryable, so that no retry waits. A move of a pointer never loses its
  // answer. Otherwise the pointer would not be where the process last knew it, and the next saves
  // would be refused.
  std::shared_ptr<ObjectStore> watched(Fate& fate) const {
    const auto obey_here = [&fate](const std::string& name) {
      const Fate::Verdict verdict = fate.next_call();
      if (verdict == Fate::Verdict::kDies) throw_dead();
      if (verdict == Fate::Verdict::kFails) throw StorageError(name + ": 403 injected fault", 403);
    };
    StoreHooks hooks;
    hooks.before = [obey_here](StoreCall /*call*/, const std::string& name) { obey_here(name); };
    hooks.after = [obey_here](StoreCall call, const std::string& name) {
      if (call != StoreCall::kMovePointer) obey_here(name);
    };
    return std::make_shared<WatchedStore>(far_, std::move(hooks));
  }

  void move_objects(const std::string& from, const std::string& to) {
    for (const ListedName& listed : list_all(*far_, from)) {
      const std::string old_name = from + "/" + listed.name;
      const std::string new_name = to + "/" + listed.name;
      if (const auto pointer = far_->read_pointer(old_name)) {
        far_->move_pointer(new_name, to + pointer->target.substr(from.size()));
        far_->remove(old_name);
      } else if (is_folder(*far_, old_name)) {
        move_objects(old_name, new_name);
      } else {
        far_->rename(old_name, new_name);
      }
    }
  }

  const Where where_;
  TempFolder folder_;
  std::unique_ptr<SimFileSystem> disk_;
  const std::shared_ptr<ObjectStore> far_ = memory_store();
};

// Whether a killed process may leave a file with this name: a lock, or the probe of a far store.
inline bool may_be_left_over(const std::string& name) {
  return name.starts_with(".cairn-") || name.starts_with(".credentials_validated_successfully-");
}

// The bytes of all objects in a folder and below it, and the targets of its pointers. Leaves out
// files for which may_be_left_over() is true.
inline std::map<std::string, std::string> content_of(ObjectStore& store,
                                                     const std::string& folder) {
  std::map<std::string, std::string> content;
  for (const ListedName& listed : list_all_if_any(store, folder)) {
    const std::string path = folder + "/" + listed.name;
    const auto info = store.stat(path, /*follow=*/false);
    if (!info || may_be_left_over(listed.name)) continue;
    if (info->type == ObjectInfo::Type::kFolder) {
      content.merge(content_of(store, path));
    } else if (const auto pointer = store.read_pointer(path)) {
      content[path] = "-> " + pointer->target;
    } else {
      try {
        content[path] = std::string(as_text(read_all(*store.open(path)).view));
      } catch (const NotFoundError&) {  // Removed meanwhile.
      }
    }
  }
  return content;
}

}  // namespace cairn::testing
