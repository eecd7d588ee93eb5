#include "checkpoint/ranks/commit/machine_folder.h"

#include <fmt/format.h>

#include <cerrno>

#include "cairn/error.h"

namespace cairn {

void MachineFolder::join_or_create(const std::string& id, bool may_put_aside) {
  options_.id = id;
  folder_ = join_attempt_folder(store_, options_);
  if (folder_ == nullptr) {
    home_ = call_.me().rank;
    AttemptFolderOptions own = options_;
    own.overwrite = true;  // true, because rank 0 decides what is kept
    // A failing disk may take long to answer.
    call_.with_signs_of_life([&] { put_unknown_aside(store_, options_.path, may_put_aside); });
    folder_ = create_attempt_folder(store_, own);
    refuse_rivals();
    call_.with_signs_of_life([&] { name_ = look_at_name(store_, options_.path); });
  }
  call_.set("home/" + std::to_string(call_.me().rank), std::to_string(home_));
}

// The folder may be rank 0's or this machine's; both folders have the same name. The first rank of
// the machine says which folder it is.
void MachineFolder::join(const std::string& id) {
  options_.id = id;
  const std::int64_t leader = call_.me().machine_leader;
  if (leader != 0) home_ = std::stoll(call_.wait_for("home/" + std::to_string(leader)));
  folder_ = join_attempt_folder(store_, options_);
  if (folder_ != nullptr) return;
  throw UsageError(fmt::format(
      "the folder in which this attempt's files are put together, beside {}, is not visible to it, "
      "and rank {} of the same machine has it. Is the path relative, or on another mount?",
      store_.describe(options_.path), leader));
}

void MachineFolder::refuse_rivals() const {
  if (!folder_->has_rival()) return;
  throw StorageError(fmt::format("another process, perhaps of an earlier start of this job, still "
                                 "writes {}: it must end first",
                                 store_.describe(options_.path)),
                     EBUSY, /*retryable=*/true);
}

void MachineFolder::check_size(std::int64_t rank, const ManifestFile& file) const {
  const auto there = folder_->size_of(file.name);
  if (there == file.bytes) return;
  throw StorageError(
      fmt::format("{} of rank {} in {} has {}, but {} bytes were written", file.name, rank,
                  folder_->where(), there ? std::to_string(*there) + " bytes" : "not appeared",
                  file.bytes),
      0, /*retryable=*/true);
}

bool MachineFolder::was_removed_by_other() const {
  try {
    return folder_ != nullptr && !is_own() && !folder_->is_there();
  } catch (const Error&) {
    return false;
  }
}

void MachineFolder::release(bool keeps) {
  if (folder_ == nullptr) return;
  if (!keeps) folder_->abandon();
  folder_.reset();
}

}  // namespace cairn
