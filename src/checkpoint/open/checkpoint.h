// What a Checkpoint holds.
#pragma once

#include <memory>
#include <string>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/open/source.h"

namespace cairn {

struct Checkpoint::Impl {
  std::string path;
  std::shared_ptr<const CheckpointSource> source;
};

// The handle of a source that is open already.
Checkpoint checkpoint_of(std::string path, std::shared_ptr<const CheckpointSource> source);

// StorageError unless its source's content() is that of the one that another rank found there.
void check_content(const Checkpoint& checkpoint, const std::string& content);

}  // namespace cairn
