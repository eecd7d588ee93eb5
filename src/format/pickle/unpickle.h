// Reads a pickle that nobody has checked.
#pragma once

#include "format/pickle/globals.h"

namespace cairn::pickle {

// The object of a pickle of protocol 2 to 5; bytes after it are ignored. Tensors take their bytes
// from `storages`. Throws CorruptError (with the offset in the pickle where one can be named) and
// UnsupportedError.
Value unpickle(ByteView pickle, StorageLoader& storages);

}  // namespace cairn::pickle
