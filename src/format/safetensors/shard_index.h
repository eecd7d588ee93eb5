// The index beside the shards of a model, by Hugging Face's conventions: which file holds which
// tensor. docs/formats/safetensors.md.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cairn/bytes.h"

namespace cairn::safetensors {

struct ShardIndex {
  // Tensor and file, a bare name, in the order of the index.
  std::vector<std::pair<std::string, std::string>> files_of;
  // The "metadata" that are texts or numbers, as text.
  std::vector<std::pair<std::string, std::string>> metadata;

  // Each file once, sorted.
  std::vector<std::string> files() const;
};

// Whether the bytes begin as a JSON object with a "weight_map".
bool may_be_index(ByteView file);

// CorruptError for what is no such index, or one whose files lie elsewhere: names with "/" or "\",
// "..", or a tensor named twice.
ShardIndex parse_index(ByteView file);

// transformers' style: sorted, two spaces of indentation.
std::string write_index(const ShardIndex& index, std::uint64_t total_size);

// "model-00001-of-00003.safetensors"
std::string shard_name(std::size_t number, std::size_t count);

inline constexpr const char* kIndexName = "model.safetensors.index.json";

}  // namespace cairn::safetensors
