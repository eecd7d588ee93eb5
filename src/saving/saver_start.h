// Checks of a Destination before the first batch: the start ends with an error that would otherwise
// end the first save.
#pragma once

#include <string>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"
#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {
class Logger;
class State;
}  // namespace cairn

namespace cairn {

class CheckpointLayout;

// Whether no batch is left to train. The end of the last epoch may still be pending.
bool is_after_last_batch(const State& state);

// Tries to write in the folders of these names. Does so only on this machine, because names may
// contain folders. Throws StorageError if a folder accepts no file, if a file or a link is in its
// place, or if a name is too long.
void try_names(const CheckpointSaverOptions& options, const State& state);

// Removes files that killed saves left in `folder`, and logs them. `variables`: of the rank that
// made these names.
void remove_leftovers(const CheckpointSaverOptions& options, const std::string& folder,
                      const FormatVariables& variables, Logger& logger);

// Lets the loggers that keep files prepare for the files that they will get.
void look_at_uploads(const CheckpointSaverOptions& options, const State& state,
                     const Logger& logger);

// Throws StorageError with ENOSPC if the disk has no space for the next save, which is written
// before an older one is removed. Does nothing if the size is unknown, if this rank writes nothing,
// or if the run is at its end.
void check_room(const CheckpointSaverOptions& options, const CheckpointLayout& layout,
                const State& state);

// A warning about a store that cannot tell the writes of two jobs apart. Empty if it can. Call it
// after the first save: a store may have to test its features, and that save has tested most of
// them.
std::string warning_without_locks(const ObjectStore& store, const std::string& saved_path);

}  // namespace cairn
