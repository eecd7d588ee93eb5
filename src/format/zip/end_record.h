// Step 1 of reading a zip's directory: finds the directory.
#pragma once

#include <optional>

#include "format/zip/layout.h"

namespace cairn::zip {

// Enough of a file's end to hold the end records: junk as far as PyTorch searches, the three
// records, and an extensible Zip64 record of some KiB.
constexpr std::size_t kTailBytes = std::size_t{80} << 10;

// Returns where the zip at the end of the file begins, if other bytes precede it. The offsets in
// such a zip count from its own beginning. Returns nullopt unless all these offsets differ from
// those in the file by the same number.
std::optional<std::uint64_t> find_late_begin(ByteView tail, std::uint64_t begin);

// Returns the extent that the end records state, after checking that it lies directly before them.
// `tail` is the last kTailBytes of the file, or the whole file; `begin` is the tail's offset.
// Throws CorruptError with an offset if there is no end record, or if the records contradict each
// other.
DirectoryExtent find_directory(ByteView tail, std::uint64_t begin);

}  // namespace cairn::zip
