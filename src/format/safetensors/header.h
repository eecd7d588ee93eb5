// The header of a safetensors file, parsed and checked.
#pragma once

#include <vector>

#include "cairn/format/safetensors.h"

namespace cairn::safetensors {

inline constexpr std::uint64_t kSizeBytes = 8;  // of the header's size, before the header
inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
inline constexpr std::string_view kMetadataName = "__metadata__";

// Whether the bytes begin as such a file does, damaged or cut off as it may be.
bool has_header(ByteView file);

struct Header {
  SharedBytes bytes = {};                      // with its size
  std::vector<SafetensorsEntry> entries = {};  // in the order of their bytes
  SafetensorsFile::Metadata metadata = {};
};

// CorruptError, UnsupportedError.
Header read_header(const ByteSource& file);

}  // namespace cairn::safetensors
