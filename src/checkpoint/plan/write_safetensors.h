// Writes named tensors into safetensors files, published atomically.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cairn/storage/object_store.h"

#include "checkpoint/plan/named_tensors.h"
#include "checkpoint/plan/save_job.h"

namespace cairn {

// The paths of the written files, and their bytes.
struct WrittenFiles {
  std::vector<std::string> files;
  std::uint64_t bytes = 0;
};

// Writes one file, for SaveJob::write. Does not use the job's value. `metadata`: entries besides
// {"format": "pt"}, the tied names and the checksums.
WrittenFiles write_safetensors(ObjectStore& store, const SaveJob& job, const NamedTensors& named,
                               const SafetensorsFile::Metadata& metadata);

struct ShardOptions {
  std::uint64_t shard_bytes = 0;
  SafetensorsFile::Metadata metadata = {};  // of each shard
  // The name of the only file, without an index, if one shard is enough. Empty: shards and an
  // index.
  std::string single_file = {};
  std::vector<std::pair<std::string, std::string>> texts = {};  // further files, and their content
};

// Writes a folder of shards and their index. Each shard has at most `shard_bytes` bytes of tensors,
// in the order of the tensors. A larger tensor gets a shard of its own.
WrittenFiles write_sharded_safetensors(ObjectStore& store, const SaveJob& job, NamedTensors named,
                                       const ShardOptions& options);

}  // namespace cairn
