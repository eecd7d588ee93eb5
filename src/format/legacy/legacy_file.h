// The files of torch.save before PyTorch 1.6, still written with
// _use_new_zipfile_serialization=False: docs/formats/legacy.md. Such a file has no checksums.
#pragma once

#include <cstdint>
#include <memory>

#include "cairn/byte_source.h"
#include "cairn/value.h"

namespace cairn {

// Returns whether a file whose first kLegacyStartBytes bytes are `start` is a legacy file.
bool is_legacy_file(ByteView start);
inline constexpr std::uint64_t kLegacyStartBytes = 64;

struct LegacyObject {
  Value value;
  std::uint64_t end = 0;  // the end of its bytes in the file
};

// Reads the object that begins at `begin`. One file may hold several objects, one after another.
// PyTorch reads only the first. The object's storages are ranges of the file. Costs a read of 256
// KiB for the bytes before the storages (more if they are longer) and one for the storages' places.
// Throws CorruptError with an offset, UnsupportedError.
LegacyObject read_legacy_object(const std::shared_ptr<const ByteSource>& file,
                                std::uint64_t begin = 0);

}  // namespace cairn
