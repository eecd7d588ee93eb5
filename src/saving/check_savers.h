// Checks the CheckpointSavers of one Trainer: which one autoresume uses, and that no saver writes
// another's files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {
class Callback;
class CheckpointSaver;
struct CheckpointSaverOptions;
}  // namespace cairn

namespace cairn {

// Returns all savers, in order. They live as long as the callbacks.
std::vector<CheckpointSaver*> savers_among(const std::vector<std::shared_ptr<Callback>>& callbacks);

// Whether any checkpoint of this saver is kept anywhere. `uploads`: there is a logger that keeps
// files.
bool keeps_checkpoints(const CheckpointSaverOptions& options, bool uploads);
// Whether a run can resume from the saver's checkpoints: the saver saves the whole state, and keeps
// checkpoints.
bool saves_whole_state(const CheckpointSaver& saver, bool uploads);

// Throws UsageError if a checkpoint or link of one saver could have the path of another's: each
// would replace and remove the other's files. The error names both savers and a path. Compares
// folders as they are on this machine, after following links, and names with the run's values.
void check_paths(const std::vector<CheckpointSaver*>& savers, const std::string& run_name,
                 bool uploads);

}  // namespace cairn
