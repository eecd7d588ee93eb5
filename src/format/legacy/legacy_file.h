// torch.save's files before PyTorch 1.6, still written with _use_new_zipfile_serialization=False:
// docs/formats/legacy.md. Nothing in such a file is checked by a sum.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/bytes.h"
#include "cairn/value.h"

namespace cairn {

// Whether the bytes begin as such a file does.
bool is_legacy_file(ByteView bytes);

struct LegacyObject {
  Value value;
  std::uint64_t end = 0;  // of its bytes in the file
};

// The object that begins at `begin`: one file may hold several, one after the other, of which
// PyTorch reads the first. Its storages are views of `bytes`. `file` names the file in messages.
// CorruptError with offset; UnsupportedError.
LegacyObject read_legacy_object(const SharedBytes& bytes, const std::string& file,
                                std::uint64_t begin = 0);

}  // namespace cairn
