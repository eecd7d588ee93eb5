// A torch.distributed.checkpoint folder in safetensors form, as PyTorch's HuggingFaceStorageWriter
// writes it without consolidation (2.7 and later): docs/formats/safetensors.md.
//
//  1. Every file has the parts of tensors that one rank had, with the parts' shapes.
//  2. Its metadata says under DCP_SHARDING_INFO where each part begins in the whole tensor.
//  3. The whole tensor is as large as its parts reach; Folder checks that they fill it.
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

// Returns whether the name is that of a file with one rank's parts, which no index describes:
// "shard-00001-model-00001-of-00001.safetensors".
bool is_shard_name(std::string_view name);

// Keys in the metadata of a file that torch.distributed.checkpoint wrote: the version of this form,
// and where the tensors of the file begin.
inline constexpr const char* kVersionKey = "DCP_VERSION";
inline constexpr const char* kShardingKey = "DCP_SHARDING_INFO";

// Returns whether a tensor of the file begins inside the whole tensor, not at its start. All parts
// of the first rank begin at the start, as do whole tensors that one process wrote. Throws
// CorruptError if the metadata is not as PyTorch writes it.
bool has_nonzero_offsets(const SafetensorsFile& file);

// Makes the folder's metadata from its files and their names, with a read of each. Throws
// CorruptError that names the file.
Metadata metadata_of_shards(
    std::span<const std::pair<std::string, std::shared_ptr<const ByteSource>>> files);

}  // namespace cairn::dcp
