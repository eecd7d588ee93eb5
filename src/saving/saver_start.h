// The checks of a Destination before the first batch: a start ends with an error that would else
// end the first save.
#pragma once

#include <string>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"

namespace cairn {

class CheckpointLayout;
class Logger;
class State;

// Whether no batch is left to train. The end of the last epoch may still be to come.
bool is_after_last_batch(const State& state);

// On this machine, since names may have folders in them: StorageError if a folder takes no file, if
// a file or a link stands in its place, or if a name is too long.
void try_names(const CheckpointSaverOptions& options, const State& state);

// Removes what killed saves left in `folder`, and says so. `variables`: of the rank whose names
// those are.
void remove_leftovers(const CheckpointSaverOptions& options, const std::string& folder,
                      const FormatVariables& variables, Logger& logger);

// Lets the loggers that keep files look at what they will be given.
void look_at_uploads(const CheckpointSaverOptions& options, const State& state,
                     const Logger& logger);

// StorageError of ENOSPC if the disk has no room for the next save, which is written before an
// older one is removed. Does nothing when the size is not known, when this rank writes nothing, and
// for a run that is at its end.
void check_room(const CheckpointSaverOptions& options, const CheckpointLayout& layout,
                const State& state);

// A warning about a store that cannot tell the writes of two jobs apart; empty: it can. To be asked
// after the first save: a store may have to try what it can do, and that save has tried most of it.
std::string warning_without_locks(const ObjectStore& store, const std::string& saved_path);

}  // namespace cairn
