// Whether a zip is laid out as PyTorch lays out those of torch.save, to the byte (layout.h).
#pragma once

#include <cstdint>

#include "cairn/byte_source.h"

#include "format/zip/directory.h"

namespace cairn::zip {

// True when all bytes around the records are what a Writer would have put there for the same
// records; else `offset` is the first byte that is not. Reads them from `source`; of many records
// some at a time, from as many threads as there are cores. `directory` has an entry at least.
bool is_canonical(const Directory& directory, const ByteSource& source, std::uint64_t* offset);

}  // namespace cairn::zip
