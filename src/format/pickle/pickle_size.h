// Where a pickle ends, for files in which something follows it.
#pragma once

#include <cstddef>

#include "cairn/bytes.h"

namespace cairn::pickle {

// The number of bytes of the pickle at the start of `bytes`, with its STOP. Runs nothing: only
// steps over opcodes and their operands. CorruptError when it ends before STOP, or holds a byte
// that is no opcode.
std::size_t pickle_size(ByteView bytes);

}  // namespace cairn::pickle
