// Named tensors into safetensors files, published atomically.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

#include "checkpoint/convert/named_tensors.h"

namespace cairn {

// What was written: the files (paths) and their bytes.
struct WrittenFiles {
  std::vector<std::string> files;
  std::uint64_t bytes = 0;
};

struct WriteSafetensorsOptions {
  bool overwrite = true;
  // Besides {"format": "pt"}, the tied names and the checksums.
  SafetensorsFile::Metadata metadata = {};
};

// One file. As save(): durable and whole, or nothing of that name has changed.
WrittenFiles write_safetensors(ObjectStore& store, const NamedTensors& named,
                               const std::string& path, const WriteSafetensorsOptions& options);

// A folder of shards of at most `shard_bytes` of tensors each (one that is larger has a shard of
// its own), in the order of the tensors, and their index.
WrittenFiles write_sharded_safetensors(ObjectStore& store, NamedTensors named,
                                       const std::string& folder, std::uint64_t shard_bytes,
                                       const WriteSafetensorsOptions& options);

}  // namespace cairn
