// Reads a pickle that nobody has checked.
#pragma once

#include "format/pickle/globals.h"

namespace cairn::pickle {

// The object of a pickle of protocol 2 to 5; bytes after it are ignored. Tensors take their bytes
// from `storages`. Throws CorruptError (with the offset in the pickle where one can be named) and
// UnsupportedError.
// `more`: rows for this kind of file, see resolve_global().
Value unpickle(ByteView pickle, StorageLoader& storages, std::span<const Global> more = {});

}  // namespace cairn::pickle
