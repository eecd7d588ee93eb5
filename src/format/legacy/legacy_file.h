// torch.save's files before PyTorch 1.6, still written with _use_new_zipfile_serialization=False:
// docs/formats/legacy.md. Nothing in such a file is checked by a sum.
#pragma once

#include <cstdint>
#include <memory>

#include "cairn/byte_source.h"
#include "cairn/value.h"

namespace cairn {

// Whether the bytes, a file's first kLegacyStartBytes, begin as such a file does.
bool is_legacy_file(ByteView start);
inline constexpr std::uint64_t kLegacyStartBytes = 64;

struct LegacyObject {
  Value value;
  std::uint64_t end = 0;  // of its bytes in the file
};

// The object that begins at `begin`: one file may hold several, one after the other, of which
// PyTorch reads the first. Its storages are ranges of the file. A read of 256 KiB for what stands
// before them, more where that is longer, and one for where they are. CorruptError with offset;
// UnsupportedError.
LegacyObject read_legacy_object(const std::shared_ptr<const ByteSource>& file,
                                std::uint64_t begin = 0);

}  // namespace cairn
