// The checksums that cairn adds to safetensors files, which have none, and to the index of their
// shards. The checksums are two texts in "__metadata__" of a file, or in "metadata" of an index.
// Other readers ignore these texts. docs/formats/safetensors.md.
//
//   "cairn.writer": "cairn 0.1.0"
//   "cairn.xxh3":   32 hex digits, then 16 for each part
//
// The first 32 digits are the XXH3-128 of the text that contains them: a file up to the end of its
// header, or the whole index. The hash is computed with zeros in place of these 32 digits. The
// other digits are the XXH3-64 of each part. The parts of a file are its tensors that have bytes,
// in the order of the bytes. The parts of an index are its shards up to the end of their headers,
// in the order of their names. So the checksums together cover every byte.
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

// Returns whether `key` of "__metadata__" is one of the two; such keys are not copied to other
// files.
bool is_checksum_key(std::string_view key);

// Returns how many of the tensors have bytes.
std::size_t count_with_bytes(const std::vector<NamedTensor>& tensors);

// The text before the digits, in a header and in an index. No other text in them can contain it,
// because a quote in a text is escaped.
inline constexpr std::string_view kHeaderMarker = R"("cairn.xxh3":")";
inline constexpr std::string_view kIndexMarker = R"("cairn.xxh3": ")";

// Returns the two texts for this number of parts, with zeros for digits.
SafetensorsFile::Metadata empty_checksums(std::size_t parts);

// Writes the digits into `text`, which has room for them after `marker`.
void fill_checksums(std::string& text, std::string_view marker,
                    const std::vector<std::uint64_t>& of_parts);

struct Checksums {
  std::string problem;                  // why the checksums are unusable; empty if they are usable
  std::vector<std::uint64_t> of_parts;  // one for each part
};

// A text that may contain checksums, and how messages call it.
struct ChecksumTexts {
  const std::string* writer;  // the two texts; nullptr: there is no such text
  const std::string* digits;
  std::string_view text;
  std::string_view marker;
  std::size_t parts;
  const char* what;  // "its header"
};

// Returns the checksums in the text; nullopt if it has none.
std::optional<Checksums> find_checksums(const ChecksumTexts& text);
// As above, for a file. `header` is the file's bytes up to the data.
std::optional<Checksums> find_checksums(const SafetensorsFile& file, ByteView header);

// Returns the XXH3-64 of a file up to the end of its header, which contains the checksums of the
// rest. Returns nullopt for a file without a header. Throws StorageError if reading fails.
std::optional<std::uint64_t> header_digest(const ByteSource& file);

}  // namespace cairn::safetensors
