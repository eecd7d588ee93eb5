#include "checkpoint/folder/run_lock.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <map>
#include <mutex>

#include "cairn/error.h"

#include "core/hash/xxh3.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "core/text/printable.h"
#include "io/bytes/source_part.h"
#include "io/files/lock_file.h"
#include "io/files/real_path.h"
#include "io/machine.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"

namespace cairn {
namespace {

constexpr std::size_t kLongestHolder = 4096;

std::string lock_path(const RunLockRequest& request) {
  return join_path(request.folder,
                   fmt::format("{}{:016x}", kLockPrefix, xxh3_64(as_bytes(request.run_name))));
}

std::string own_text(const RunLockRequest& request) {
  const Json holder = {{"run_name", request.run_name},
                       {"pid", process_id()},
                       {"host", node_name()},
                       {"started", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))},
                       {"job", request.job}};
  return json_text(holder, -1) + "\n";
}

// Accepts any text. Fields that the text lacks stay empty.
RunLockHolder holder_of(const std::string& text) {
  RunLockHolder holder;
  const Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return holder;
  const auto text_at = [&](const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const auto pid = object.find("pid");
  if (pid != object.end() && pid->is_number_integer()) holder.pid = pid->get<std::int64_t>();
  holder.run_name = text_at("run_name");
  holder.host = text_at("host");
  holder.started = text_at("started");
  holder.job = text_at("job");
  return holder;
}

std::string described(const RunLockHolder& holder) {
  if (holder.pid == 0) return "another process, whose number is not known";
  return fmt::format("process {} on {}, started {}", holder.pid, printable_line(holder.host),
                     printable_line(holder.started));
}

[[noreturn]] void throw_busy(const RunLockRequest& request, const RunLockHolder& holder) {
  throw BusyError(
      fmt::format("the run \"{0}\" is training already, and saves into {1}: {2}. Two starts of one "
                  "run would overwrite each other's checkpoints.\nWait until that one has ended, "
                  "or give this one another run_name or folder.\nIf its machine is dead, "
                  "`cairn lock {1} --release` releases the lock",
                  printable_line(request.run_name), request.folder, described(holder)));
}

// The locks that this process holds, by their paths.
class LocksOfProcess {
 public:
  static LocksOfProcess& all() {
    static auto* const all = new LocksOfProcess;
    return *all;
  }

  std::shared_ptr<void> take(FileSystem& files, const RunLockRequest& request) {
    const std::scoped_lock lock(mutex_);
    const std::string path = lock_path(request);
    Own& own = own_[real_path(path)];
    if (auto held = own.held.lock(); held && own.pid == process_id()) return held;
    FileLock taken = files.lock_file(path, own_text(request));
    if (!taken.held && !taken.has_locks) return nullptr;
    if (!taken.held) {
      const RunLockHolder holder = holder_of(taken.holder);
      if (holder.job != request.job) throw_busy(request, holder);
      taken.held = std::make_shared<char>();  // another process of this start holds it for all
    }
    own = {.held = taken.held, .pid = process_id()};
    return taken.held;
  }

 private:
  struct Own {
    std::weak_ptr<void> held = {};
    std::int64_t pid = 0;  // if not this process: `pid` forked this process and holds the lock
  };

  std::mutex mutex_;
  std::map<std::string, Own> own_;
};

}  // namespace

std::shared_ptr<void> take_run_lock(FileSystem& files, const RunLockRequest& request) {
  const std::string path = lock_path(request);
  const auto there = files.stat(path, /*follow=*/false);
  if (there && there->type != FileInfo::Type::kRegular) {
    put_aside(*local_store(files), path, kAsideDamaged);
  }
  return LocksOfProcess::all().take(files, request);
}

bool is_run_locked(FileSystem& files, const RunLockRequest& request) {
  if (!files.stat(lock_path(request), /*follow=*/false)) return false;
  try {
    take_run_lock(files, request);
    return false;
  } catch (const BusyError&) {
    return true;
  }
}

std::vector<RunLockFile> list_run_locks(FileSystem& files, const std::string& folder) {
  std::vector<RunLockFile> locks;
  for (const std::string& name : files.list(folder)) {
    const std::string path = join_path(folder, name);
    const auto there = files.stat(path, /*follow=*/false);
    if (!is_lock_name(name) || !there || there->type != FileInfo::Type::kRegular) continue;
    RunLockFile lock;
    lock.path = path;
    try {
      const SharedBytes text = read_start(*files.open(path), kLongestHolder);
      lock.holder = holder_of(std::string(as_text(text.view)));
    } catch (const NotFoundError&) {
      continue;  // released meanwhile
    }
    lock.is_alive_here = lock.holder.host == node_name() && is_process_alive(lock.holder.pid);
    locks.push_back(std::move(lock));
  }
  return locks;
}

void release_run_lock(FileSystem& files, const RunLockFile& lock) {
  const FileLock now = files.lock_file(lock.path, "");
  if (now.held) return;  // no process had it: taking the lock has removed the file
  if (lock.is_alive_here || now.is_held_here) {
    throw BusyError(
        fmt::format("the lock {} is held by {}, which is alive on this machine: end that process "
                    "instead (`fuser -v {}` names it)",
                    lock.path, described(lock.holder), lock.path));
  }
  files.remove(lock.path);
}

}  // namespace cairn
