// Who wrote a file.
#pragma once

#include <string_view>

namespace cairn {

// "cairn 0.1.0": stands in every manifest, and among the checksums and the metadata of files.
extern const char* const kWriter;

// Whether `writer`, of a file, is a cairn of a higher version than this one. False for what is no
// cairn.
bool is_newer_cairn(std::string_view writer);

}  // namespace cairn
