// The index beside the shards of a model, by Hugging Face's conventions: which file holds which
// tensor. What cairn writes says what it is itself and which files belong to it (checksums.h).
// docs/formats/safetensors.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/byte_source.h"

#include "format/safetensors/checksums.h"

namespace cairn::safetensors {

struct ShardIndex {
  // Tensor and file, a bare name, in the order of the index.
  std::vector<std::pair<std::string, std::string>> files_of;
  // The "metadata" that are texts or numbers, as text.
  std::vector<std::pair<std::string, std::string>> metadata;

  // Each file once, sorted.
  std::vector<std::string> files() const;
  // nullptr when there is none of that name.
  const std::string* find_metadata(std::string_view name) const;
};

// Whether the file begins as a JSON object with a "weight_map". StorageError.
bool may_be_index(const ByteSource& file);

// CorruptError for what is no such index, or one whose files lie elsewhere: names with "/" or "\",
// "..", or a tensor named twice.
ShardIndex parse_index(ByteView file);

// What the index `file` says of itself, its parts the shards in the order of files(); nullopt when
// it says nothing.
std::optional<Checksums> find_checksums(const ShardIndex& index, ByteView file);

// transformers' style: sorted, two spaces of indentation. `of_shards`: the header_digest() of each
// file that the index names.
std::string write_index(const ShardIndex& index, std::uint64_t total_size,
                        const std::map<std::string, std::uint64_t>& of_shards);

// "model-00001-of-00003.safetensors"
std::string shard_name(std::size_t number, std::size_t count);

inline constexpr const char* kIndexName = "model.safetensors.index.json";

}  // namespace cairn::safetensors
