// Who wrote a file.
#pragma once

namespace cairn {

// "cairn 0.1.0": stands in every manifest, and among the checksums and the metadata of files.
extern const char* const kWriter;

}  // namespace cairn
