// Reads a pickle that nobody has checked.
#pragma once

#include "format/pickle/globals/globals.h"

namespace cairn::pickle {

// The object of a pickle of protocol 0 to 5; bytes after it are ignored. Tensors take their bytes
// from `storages`. Throws CorruptError (with the offset in the pickle where one can be named) and
// UnsupportedError.
// `more` are rows for one kind of file, beside the tables that serve all (resolve_global).
Value unpickle(ByteView pickle, StorageLoader& storages, std::span<const Global> more = {});

// The same for one of several pickles in a file: what the Value holds stays taken from `budget`.
Value unpickle(ByteView pickle, StorageLoader& storages, MemoryBudget& budget,
               std::span<const Global> more = {});

}  // namespace cairn::pickle
