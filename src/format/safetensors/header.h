// The header of a safetensors file, parsed and checked.
#pragma once

#include <vector>

#include "cairn/format/safetensors.h"

namespace cairn::safetensors {

inline constexpr std::uint64_t kSizeBytes = 8;  // size of the number before the header
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::string_view kMetadataName = "__metadata__";

// Returns whether the bytes begin as a safetensors file does, even if it is damaged or cut off.
bool has_header(ByteView file);

struct Header {
  SharedBytes bytes = {};                      // the 8-byte size, then the JSON text
  std::vector<SafetensorsEntry> entries = {};  // in the order of their bytes
  SafetensorsFile::Metadata metadata = {};
};

// Throws CorruptError, UnsupportedError.
Header read_header(const ByteSource& file);

}  // namespace cairn::safetensors
