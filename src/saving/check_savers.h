// CheckpointSavers of one Trainer: which of them autoresume goes by, and that none writes another's
// files.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace cairn {

class Callback;
class CheckpointSaver;
struct CheckpointSaverOptions;

// All of them, in order. They live as long as the callbacks.
std::vector<CheckpointSaver*> savers_among(const std::vector<std::shared_ptr<Callback>>& callbacks);

// Whether anything of what it saves stays anywhere. `uploads`: there is a logger that keeps files.
bool keeps_checkpoints(const CheckpointSaverOptions& options, bool uploads);
// Whether a run can go on from what it saves: the whole state, and not nothing.
bool saves_whole_state(const CheckpointSaver& saver, bool uploads);

// UsageError that names both, and a path, when a checkpoint or link of one saver could have the
// path of a checkpoint or link of another: each would replace and remove the other's. Folders are
// compared as they are on this machine, links followed; names with the run's values.
void check_paths(const std::vector<CheckpointSaver*>& savers, const std::string& run_name,
                 bool uploads);

}  // namespace cairn
