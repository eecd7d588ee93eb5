// Looks into a file that is about to be overwritten, to find out whether it is a checkpoint, and of
// which run.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

struct FileFindings {
  std::optional<CheckpointInfo> info;  // from the checkpoint
  std::string problem;                 // without `info`: why no run can resume from it
  // Set, besides `problem`, if the disk does not return all of the file.
  std::exception_ptr unreadable = nullptr;
};

// Sets `problem` if the file is damaged, missing or not a checkpoint, or if the disk does not
// return all of it. Throws an error that makes the file unreadable only this time, because after
// such an error it is not known what the file is.
FileFindings inspect_file(const std::shared_ptr<ObjectStore>& store, const std::string& path,
                          Verify how);

}  // namespace cairn
