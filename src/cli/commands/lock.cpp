// cairn lock FOLDER: shows which runs hold the lock of a save folder, and releases the lock of a
// machine that died.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "checkpoint/folder/run_lock.h"
#include "cli/shell/command.h"
#include "cli/view/table.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/machine.h"
#include "storage/local/local_store.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct LockArgs {
  std::string folder;
  std::string run_name;
  bool release = false;
};

FileSystem& files_with_locks(const std::string& folder) {
  const auto store = store_of(folder, nullptr);
  if (const LocalFiles* const local = local_files_of(*store)) return local->files();
  throw UnsupportedError(shown_place(folder) +
                         " has no locks: only folders of this machine's file systems have");
}

const char* state_of(const RunLockFile& lock) {
  if (lock.is_alive_here) return "lives";
  if (lock.holder.pid == 0) return "not known";  // the disk was full, so there is no record
  return lock.holder.host == node_name() ? "ended" : "on another machine";
}

Json json_of(const RunLockFile& lock) {
  return {
      {"path", lock.path},        {"run_name", lock.holder.run_name}, {"pid", lock.holder.pid},
      {"host", lock.holder.host}, {"started", lock.holder.started},   {"state", state_of(lock)}};
}

void print(const std::vector<RunLockFile>& locks, const LockArgs& options, Console& console) {
  if (locks.empty()) {
    console.err << "cairn: no run holds a lock in " << printable_line(options.folder) << "\n";
    return;
  }
  Table table({"RUN", ">PID", "HOST", "STARTED", "PROCESS"});
  for (const RunLockFile& lock : locks) {
    const RunLockHolder& holder = lock.holder;
    table.add(
        {holder.run_name, std::to_string(holder.pid), holder.host, holder.started, state_of(lock)});
  }
  table.print(console);
  if (options.release) console.out << "released\n";
}

int run_lock(const LockArgs& options, Console& console) {
  FileSystem& files = files_with_locks(options.folder);
  std::vector<RunLockFile> locks = list_run_locks(files, options.folder);
  if (!options.run_name.empty()) {
    std::erase_if(
        locks, [&](const RunLockFile& lock) { return lock.holder.run_name != options.run_name; });
  }
  if (options.release) {
    // Locks of live runs come first: they are refused before any lock is released.
    std::ranges::stable_partition(locks, &RunLockFile::is_alive_here);
    for (const RunLockFile& lock : locks)
      release_run_lock(files, lock);
  }
  if (console.json) {
    Json all = Json::array();
    for (const RunLockFile& lock : locks)
      all.push_back(json_of(lock));
    console.print_json({{"folder", options.folder}, {"locks", all}, {"released", options.release}});
  } else {
    print(locks, options, console);
  }
  return kDone;
}

}  // namespace

Run define_lock(CLI::App& app) {
  const auto options = std::make_shared<LockArgs>();
  app.add_option("FOLDER", options->folder, "the run's save_folder")->required();
  app.add_option("--run-name", options->run_name, "only the lock of this run")->type_name("NAME");
  app.add_flag("--release", options->release,
               "release the locks, unless a process of this machine holds one");
  app.footer(
      "A fit() that saves into FOLDER holds a lock, so that a second start of the run is refused. "
      "A lock ends with its process, however the process ends. --release is for the lock of a "
      "machine that died, if a file server keeps it. Make sure that the machine is dead: otherwise "
      "its process would overwrite the checkpoints of the next start. Exit code 9 when a process "
      "of this machine holds the lock.");
  return [options](Console& console) { return run_lock(*options, console); };
}

}  // namespace cairn::cli
