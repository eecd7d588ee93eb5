// Where a pickle ends, for files in which something follows it.
#pragma once

#include <cstddef>
#include <optional>

#include "io/bytes/windows.h"

namespace cairn::pickle {

// The number of bytes of the pickle at the start of `bytes`, with its STOP. Runs nothing: only
// steps over opcodes and their operands. CorruptError when it ends before STOP, or holds a byte
// that is no opcode.
std::size_t pickle_size(ByteView bytes);

// The pickle that begins at `at`. Reads kFirstPickleBytes, and four times as much each time that
// its STOP was not there. CorruptError as above, with offsets counted from `at`; StorageError.
SharedBytes pickle_at(const Windows& source, std::uint64_t at);

// How many bytes of a pickle go with each of its storages, as its beginning tells: from one
// persistent id to the next. nullopt when it has too few of them to tell.
std::optional<std::uint64_t> bytes_a_storage(ByteView beginning);

inline constexpr std::uint64_t kFirstPickleBytes = std::uint64_t{64} << 10;

}  // namespace cairn::pickle
