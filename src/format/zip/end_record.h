// Step 1 of reading a zip's directory: where the directory is.
#pragma once

#include <optional>

#include "format/zip/layout.h"

namespace cairn::zip {

// As much of a file's end as can hold the end records: junk as far as PyTorch looks for them, the
// three records, and an extensible Zip64 one of some KiB.
constexpr std::size_t kTailBytes = std::size_t{80} << 10;

// The begin of the zip at the end of the file, if other bytes stand before it. The offsets of such
// a zip count from its own begin. nullopt unless all of them differ from those in the file by the
// same number.
std::optional<std::uint64_t> find_late_begin(ByteView tail, std::uint64_t begin);

// The extent that the end records give, checked to lie directly before them. `tail` is the last
// kTailBytes of the file, or all of it; `begin` is where it begins. CorruptError, with offset, when
// there is no end record or the records contradict each other.
DirectoryExtent find_directory(ByteView tail, std::uint64_t begin);

}  // namespace cairn::zip
