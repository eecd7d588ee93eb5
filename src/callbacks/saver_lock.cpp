#include "callbacks/saver_lock.h"

#include "cairn/error.h"

#include "checkpoint/folder/run_lock.h"
#include "core/printable.h"
#include "io/file.h"
#include "storage/local_store.h"

namespace cairn {

std::shared_ptr<void> SaverLock::take() const {
  FileSystem& files = files_of(*store_);
  files.make_folders(folder_);
  return take_run_lock(files, {.folder = folder_, .run_name = run_name_, .job = job_});
}

std::string SaverLock::newest_by(const std::string& link) const {
  const auto pointer = link.empty() ? std::nullopt : store_->read_pointer(link);
  return pointer ? pointer->target : "";
}

void SaverLock::look(const std::string& link) {
  newest_while_busy_.reset();
  if (!is_local(*store_)) return;
  const RunLockRequest lock = {.folder = folder_, .run_name = run_name_, .job = job_};
  if (is_run_locked(files_of(*store_), lock)) newest_while_busy_ = newest_by(link);
}

bool SaverLock::hold(const std::string& link) {
  if (!is_local(*store_)) return true;
  held_ = take();
  if (newest_while_busy_ && newest_by(link) != *newest_while_busy_) {
    throw BusyError("the run \"" + printable_line(run_name_) +
                    "\" was training in another process when this start looked for its "
                    "checkpoints, and has saved further ones since. Start this one again");
  }
  return held_ != nullptr;
}

void SaverLock::share() {
  if (is_local(*store_)) held_ = take();
}

std::optional<std::shared_ptr<void>> SaverLock::take_unless_busy() const {
  if (!is_local(*store_)) return nullptr;
  try {
    return take();
  } catch (const BusyError&) {
    return std::nullopt;
  }
}

}  // namespace cairn
