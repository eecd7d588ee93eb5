#include "saving/places/saver_lock.h"

#include "cairn/error.h"

#include "checkpoint/folder/run_lock.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/local/local_store.h"

namespace cairn {

std::shared_ptr<void> SaverLock::take() const {
  const LocalFiles* const local = store_ ? local_files_of(*store_) : nullptr;
  if (local == nullptr) return nullptr;
  local->files().make_folders(folder_);
  return take_run_lock(local->files(), {.folder = folder_, .run_name = run_name_, .job = job_});
}

std::string SaverLock::newest_by(const std::string& link) const {
  const auto pointer = link.empty() ? std::nullopt : store_->read_pointer(link);
  return pointer ? pointer->target : "";
}

void SaverLock::look(const std::string& link) {
  newest_while_busy_.reset();
  const LocalFiles* const local = local_files_of(*store_);
  if (local == nullptr) return;
  const RunLockRequest lock = {.folder = folder_, .run_name = run_name_, .job = job_};
  if (is_run_locked(local->files(), lock)) newest_while_busy_ = newest_by(link);
}

bool SaverLock::hold(const std::string& link) {
  if (store_ == nullptr || store_->may_be_far()) return true;
  held_ = take();
  if (newest_while_busy_ && newest_by(link) != *newest_while_busy_) {
    throw BusyError("the run \"" + printable_line(run_name_) +
                    "\" was training in another process when this start looked for its "
                    "checkpoints, and has saved further ones since. Start this one again");
  }
  return held_ != nullptr;
}

void SaverLock::share() { held_ = take(); }

std::optional<std::shared_ptr<void>> SaverLock::take_unless_busy() const {
  try {
    return take();
  } catch (const BusyError&) {
    return std::nullopt;
  }
}

}  // namespace cairn
