// A torch.distributed.checkpoint folder in safetensors form, as PyTorch's HuggingFaceStorageWriter
// leaves it without consolidation (2.7 and later): docs/formats/safetensors.md.
//
//  1. Every file has the parts of some tensors that one rank had, with their own shapes.
//  2. Its metadata say under DCP_SHARDING_INFO where each part begins in the whole tensor.
//  3. The whole is as large as its parts reach; Folder checks that they fill it.
//
// The same writer without save_distributed writes whole tensors and an index, with the same
// metadata: checkpoint/open/formats/shard_index_source.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "cairn/bytes.h"
#include "cairn/format/safetensors.h"

#include "format/dcp/metadata/metadata.h"

namespace cairn::dcp {

// One rank's parts, which no index describes: "shard-00001-model-00001-of-00001.safetensors".
bool is_shard_name(std::string_view name);

// The metadata key of a file that torch.distributed.checkpoint wrote, and where its tensors begin.
inline constexpr const char* kVersionKey = "DCP_VERSION";
inline constexpr const char* kShardingKey = "DCP_SHARDING_INFO";

// Whether a tensor of the file begins elsewhere than at the beginning of the whole tensor. The
// first rank's parts do not; nor does what one process wrote, which has all. CorruptError when the
// metadata is not what PyTorch writes.
bool begins_inside(const SafetensorsFile& file);

// The folder's metadata, from its files and their names; a read of each. CorruptError naming the
// file.
Metadata metadata_of_shards(
    std::span<const std::pair<std::string, std::shared_ptr<const ByteSource>>> files);

}  // namespace cairn::dcp
