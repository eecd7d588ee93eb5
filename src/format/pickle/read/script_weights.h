// The weights of a TorchScript module: what its state_dict() has.
#pragma once

#include "format/pickle/globals/globals.h"
#include "format/pickle/globals/script_classes.h"

namespace cairn::pickle {

// Of the module in `pickle`: a dict of its parameters, then its buffers, then its modules, which
// are dicts of the same kind. Of a class that is not among `classes` every attribute that is a
// tensor or an object counts. Throws as unpickle() does; UnsupportedError when the object is no
// module.
Value unpickle_weights(ByteView pickle, StorageLoader& storages, MemoryBudget& budget,
                       const ScriptClasses& classes);

}  // namespace cairn::pickle
