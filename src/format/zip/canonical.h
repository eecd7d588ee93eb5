// Compares a zip with PyTorch's layout of torch.save files, byte for byte (layout.h).
#pragma once

#include <cstdint>

#include "cairn/byte_source.h"

#include "format/zip/directory.h"

namespace cairn::zip {

// Returns whether all bytes around the records are as PyTorch writes them for the same records. If
// they are not, sets `offset` to that of the first byte that differs. Reads these bytes from
// `source`; if there are many records, part by part, on as many threads as there are cores.
// `directory` has at least one entry.
bool is_canonical(const Directory& directory, const ByteSource& source, std::uint64_t* offset);

}  // namespace cairn::zip
