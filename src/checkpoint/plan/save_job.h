// What every way to save a checkpoint is translated into.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace cairn {

struct SaveReport {
  std::string path = {};
  std::uint64_t bytes = 0;                // of the file
  std::vector<std::string> removed = {};  // of SaveJob::remove_afterwards, those that were there
};

// What to save, where, what it says of itself, and what becomes superfluous.
struct SaveJob {
  Value value = {};
  std::string path = {};
  std::string latest = {};  // path of the link to point at `path` afterwards; empty: none
  // Paths of files that this save makes superfluous. Removed when the new file and the link are
  // durable. Missing ones are no error; `path`, and what `latest` points at, are never removed.
  std::vector<std::string> remove_afterwards = {};
  CheckpointInfo info = {};
  WriteCondition condition = {};  // of writing `path`
  // Called when all is done, on the thread that did it. Must not call the pipeline.
  std::function<void(const SaveReport&)> report = nullptr;
};

}  // namespace cairn
