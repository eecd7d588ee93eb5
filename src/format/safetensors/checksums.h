// The checksums that cairn adds to safetensors files, which have none: two texts of "__metadata__",
// where every reader of the format passes them over. docs/formats/safetensors.md.
//
//   "cairn.writer": "cairn 0.1.0"
//   "cairn.xxh3":   32 hex digits, then 16 for each tensor that has bytes, in the order of the
//   bytes
//
// The first 32 are the XXH3-128 of the file up to the end of the header, computed with zeros in
// their own place; the others the XXH3-64 of each tensor's bytes. So every byte of the file counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/format/safetensors.h"

namespace cairn::safetensors {

inline constexpr std::string_view kWriterKey = "cairn.writer";
inline constexpr std::string_view kChecksumsKey = "cairn.xxh3";

// Whether `key` of "__metadata__" is one of the two, and so never copied into another file.
bool is_checksum_key(std::string_view key);

// The two texts for a file of these tensors, with zeros for digits.
SafetensorsFile::Metadata empty_checksums(const std::vector<NamedTensor>& tensors);

// Puts the digits into `header`, the file's bytes up to the data.
void fill_checksums(std::string& header, const std::vector<std::uint64_t>& of_tensors);

struct Checksums {
  std::string problem;                    // why they say nothing; empty when they are whole
  std::vector<std::uint64_t> of_tensors;  // those that have bytes
};

// What a file says of itself; nullopt when it says nothing. `header`: its bytes up to the data.
std::optional<Checksums> find_checksums(const SafetensorsFile& file, ByteView header);

}  // namespace cairn::safetensors
