// Finds the end of a pickle, for files in which something follows it.
#pragma once

#include <cstddef>
#include <optional>

#include "io/bytes/windows.h"

namespace cairn::pickle {

// Returns the size of the pickle at the start of `bytes`, with its STOP. Runs nothing: only steps
// over opcodes and their operands. Throws CorruptError if the bytes end before STOP, or if there is
// a byte that is not an opcode in the place of one.
std::size_t pickle_size(ByteView bytes);

// Returns the pickle that begins at `at`. Reads kFirstPickleBytes, then four times as much each
// time, until STOP is found. Throws CorruptError as above, with offsets counted from `at`;
// StorageError.
SharedBytes pickle_at(const Windows& source, std::uint64_t at);

// Estimates the bytes of a pickle for each of its storages: the average distance between persistent
// ids in its beginning. Returns nullopt if there are too few of these ids.
std::optional<std::uint64_t> bytes_per_storage(ByteView beginning);

inline constexpr std::uint64_t kFirstPickleBytes = std::uint64_t{64} << 10;

}  // namespace cairn::pickle
