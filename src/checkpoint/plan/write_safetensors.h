// Named tensors into safetensors files, published atomically.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

#include "checkpoint/plan/named_tensors.h"
#include "checkpoint/plan/save_job.h"

namespace cairn {

// What was written: the files (paths) and their bytes.
struct WrittenFiles {
  std::vector<std::string> files;
  std::uint64_t bytes = 0;
};

// One file, for SaveJob::write; of the job only where. `metadata`: besides {"format": "pt"}, the
// tied names and the checksums.
WrittenFiles write_safetensors(ObjectStore& store, const SaveJob& job, const NamedTensors& named,
                               const SafetensorsFile::Metadata& metadata);

struct ShardOptions {
  std::uint64_t shard_bytes = 0;
  SafetensorsFile::Metadata metadata = {};  // of each
};

// The same as a folder of shards of at most so many bytes of tensors each (one that is larger has
// a shard of its own), in the order of the tensors, and their index.
WrittenFiles write_sharded_safetensors(ObjectStore& store, const SaveJob& job, NamedTensors named,
                                       const ShardOptions& options);

}  // namespace cairn
