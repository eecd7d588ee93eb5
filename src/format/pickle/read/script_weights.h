// The weights of a TorchScript module, as its state_dict() has them.
#pragma once

#include "format/pickle/globals/globals.h"
#include "format/pickle/globals/script_classes.h"

namespace cairn::pickle {

// Returns a dict of the module's parameters, then its buffers, then its modules, which are dicts of
// the same kind. If a class is not in `classes`, every attribute that is a tensor or an object
// counts. Throws as unpickle() does, and UnsupportedError if the object is not a module.
Value unpickle_weights(ByteView pickle, StorageLoader& storages, MemoryBudget& budget,
                       const ScriptClasses& classes);

}  // namespace cairn::pickle
