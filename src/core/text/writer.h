// The program that wrote a file.
#pragma once

#include <string_view>

namespace cairn {

// "cairn 0.1.0". It is in every manifest, and with the checksums and the metadata of files.
extern const char* const kWriter;

// Whether `writer`, read from a file, is a newer cairn than this one. False if it is not cairn.
bool is_newer_cairn(std::string_view writer);

}  // namespace cairn
