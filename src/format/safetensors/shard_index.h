// The index beside the shards of a model, by Hugging Face's conventions: which file holds which
// tensor. An index by cairn has checksums of itself and of its files (checksums.h).
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
  // Names of tensors and of their files, without folders, in the order of the index.
  std::vector<std::pair<std::string, std::string>> files_of;
  // The entries of "metadata" that are texts or numbers, as text.
  std::vector<std::pair<std::string, std::string>> metadata;

  // Returns each file once, sorted.
  std::vector<std::string> files() const;
  // Returns nullptr if there is no such entry.
  const std::string* find_metadata(std::string_view name) const;
};

// Returns whether the file begins as a JSON object with a "weight_map". Throws StorageError if
// reading fails.
bool may_be_index(const ByteSource& file);

// Throws CorruptError for a file that is no such index, that names a tensor twice, or that names a
// file in another folder (with "/" or "\", or "..").
ShardIndex parse_index(ByteView file);

// Returns the checksums in the index `file`, nullopt if the index has none. The parts of the index
// are the shards in the order of files().
std::optional<Checksums> find_checksums(const ShardIndex& index, ByteView file);

// Writes the index as transformers does: sorted, indented by two spaces. `of_shards` has the
// header_digest() of each file that the index names.
std::string write_index(const ShardIndex& index, std::uint64_t total_size,
                        const std::map<std::string, std::uint64_t>& of_shards);

// Returns "model-00001-of-00003.safetensors".
std::string shard_name(std::size_t number, std::size_t count);

inline constexpr const char* kIndexName = "model.safetensors.index.json";

}  // namespace cairn::safetensors
