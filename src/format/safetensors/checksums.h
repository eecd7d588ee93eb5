// The checksums that cairn adds to safetensors files and to the index of their shards, which have
// none: two texts of "__metadata__" and of the index's "metadata", where every reader of the format
// passes them over. docs/formats/safetensors.md.
//
//   "cairn.writer": "cairn 0.1.0"
//   "cairn.xxh3":   32 hex digits, then 16 for each part
//
// The first 32 are the XXH3-128 of the text that they stand in, computed with zeros in their own
// place: of a file up to the end of its header, or of the index. The others are the XXH3-64 of the
// parts. Those of a file are its tensors that have bytes, in the order of the bytes; those of an
// index are its shards up to the end of their headers, in the order of their names. So every byte
// counts.
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

// How many of them have bytes.
std::size_t count_with_bytes(const std::vector<NamedTensor>& tensors);

// Where the digits stand in a header, and in an index: no text of either can hold it, because a
// quote inside one is escaped.
inline constexpr std::string_view kHeaderMarker = R"("cairn.xxh3":")";
inline constexpr std::string_view kIndexMarker = R"("cairn.xxh3": ")";

// The two texts for something of so many parts, with zeros for digits.
SafetensorsFile::Metadata empty_checksums(std::size_t parts);

// Puts the digits into `text`, which has room for them behind `marker`.
void fill_checksums(std::string& text, std::string_view marker,
                    const std::vector<std::uint64_t>& of_parts);

struct Checksums {
  std::string problem;                  // why they say nothing; empty when they are whole
  std::vector<std::uint64_t> of_parts;  // as many as there are parts
};

// A text that may have them: what is known of it, and how messages call it.
struct MaySayChecksums {
  const std::string* writer;  // the two texts; nullptr: it does not have it
  const std::string* digits;
  std::string_view text;
  std::string_view marker;
  std::size_t parts;
  const char* what;  // "its header"
};

// What it says; nullopt when it says nothing.
std::optional<Checksums> find_checksums(const MaySayChecksums& text);
// The same for a file. `header`: its bytes up to the data.
std::optional<Checksums> find_checksums(const SafetensorsFile& file, ByteView header);

// The XXH3-64 of a file up to the end of its header, which says what the rest of it is; nullopt for
// what has none. StorageError.
std::optional<std::uint64_t> header_digest(const ByteSource& file);

}  // namespace cairn::safetensors
