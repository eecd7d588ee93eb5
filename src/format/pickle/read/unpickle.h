// Reads an untrusted pickle.
#pragma once

#include "format/pickle/globals/globals.h"

namespace cairn::pickle {

// Returns the object of a pickle of protocol 0 to 5, and ignores bytes after it. Tensors take their
// storages from `storages`. `more` are rows for one kind of file, in addition to the tables for all
// kinds (resolve_global). Throws CorruptError (with the offset in the pickle, if it is known) and
// UnsupportedError.
Value unpickle(ByteView pickle, StorageLoader& storages, std::span<const Global> more = {});

// As above, for one of several pickles in a file: the Value's memory stays charged to `budget`.
Value unpickle(ByteView pickle, StorageLoader& storages, MemoryBudget& budget,
               std::span<const Global> more = {});

}  // namespace cairn::pickle
