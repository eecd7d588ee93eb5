// What a Checkpoint holds.
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

  // The handle of a source that is open already.
  static Checkpoint make(std::string path, std::shared_ptr<const CheckpointSource> source);
  // Lives as long as a copy of the handle.
  static const CheckpointSource& source_of(const Checkpoint& checkpoint) {
    return *checkpoint.impl_->source;
  }
};

// Checkpoint::read() into places of which some are no memory of the host's: `put` brings the bytes
// there while others are read. They are there before all of their record is checked. Of a
// checkpoint that has a whole_file(). What `put` throws, too.
VerifyReport read_elsewhere(const Checkpoint& checkpoint, const std::vector<StorageRead>& reads,
                            Verify how, const PutBytes& put);

// StorageError unless its source's content() is that of the one that another rank found there.
void check_content(const Checkpoint& checkpoint, const std::string& content);

}  // namespace cairn
