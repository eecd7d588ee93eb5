// The implementation of Checkpoint.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/open/read_storages.h"
#include "checkpoint/open/source.h"

namespace cairn {

struct Checkpoint::Impl {
  std::string path;
  std::shared_ptr<const CheckpointSource> source;

  // Returns a handle of a source that is already open.
  static Checkpoint make(std::string path, std::shared_ptr<const CheckpointSource> source);
  // The source lives as long as a copy of the handle.
  static const CheckpointSource& source_of(const Checkpoint& checkpoint) {
    return *checkpoint.impl_->source;
  }
};

// Like Checkpoint::read(), but some places may be outside host memory. `put` copies bytes to those
// places while others are being read. The bytes arrive in those places before their whole record is
// checked. The checkpoint must have a whole_file(). Also throws what `put` throws.
VerifyReport read_elsewhere(const Checkpoint& checkpoint, const std::vector<StorageRead>& reads,
                            Verify how, const PutBytes& put);

// Throws StorageError unless the checkpoint's content() is `content`, which another rank found in
// the same place.
void check_content(const Checkpoint& checkpoint, const std::string& content);

}  // namespace cairn
