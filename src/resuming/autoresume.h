// Autoresume: chooses the checkpoint from which the run resumes (Composer's Trainer,
// autoresume=True).
//
//  1. A run name, a save folder, a latest name and a saver of the whole state are required. Without
//     any of them, a restarted job could not find its own files or resume from them. With several
//     savers, the first one that saves the whole state counts.
//  2. That saver's folder is searched. If this folder is on this machine, every place to which a
//     logger uploads its checkpoints is searched, too. The checkpoint furthest in training wins, so
//     an old local file never beats a newer remote one. If two are equal, the local one wins. A
//     place that cannot be read ends the start, because it may hold a newer checkpoint. In a far
//     place the pointer is read first, and a good pointer makes a listing unnecessary.
//  3. In each place, the newest checkpoint with this run's run_name wins if its structure is whole
//     and every byte proves good while it is loaded. Otherwise the next one is tried. Each
//     checkpoint that is passed over is logged with the reason; checkpoints of other runs are
//     logged in one line. None is deleted. An error that says nothing about the file ends the start
//     (checkpoint/folder/find_latest.cpp tells such errors apart). If all checkpoints under names
//     that this run would write belong to other runs, the start is refused, because this run would
//     overwrite them. With several processes, rank 0 searches, and all ranks load the checkpoint
//     that it found. On several machines without a common file system, rank 0 searches the files of
//     all machines together (joint_checkpoints.h). A bad checkpoint is passed over if no rank could
//     load it, or if each rank has read only its own rows. Otherwise the start ends on all ranks.
//  4. A checkpoint that was found replaces load_path. The options for the first start
//     (load_weights_only, load_ignore_keys, load_exclude_algorithms) are not used, and a line says
//     so. Only load_strict_model_weights stays.
//  5. If none was found, load_path is loaded with its options, or training starts fresh.
#pragma once

#include "cairn/export.h"

#include "resuming/load_run.h"

namespace CAIRN_PUBLIC cairn {
class CheckpointSaver;
}  // namespace cairn

namespace cairn {

// Throws UsageError if a restarted job could not find the checkpoints that `saver` saves.
void require_findable(const CheckpointSaver& saver);

// Collective. Finds and loads a checkpoint; returns to step 2 if this checkpoint turns out to be
// undecodable. `saver` is the first one that saves the whole state.
//
// If no checkpoint is left, but the disk failed to deliver one, or another process wrote into one,
// throws the error of that checkpoint: such a checkpoint is no reason to begin anew. Throws
// StorageError if the saver's folder cannot be read, and UsageError if the folder belongs to
// another run. Throws MismatchError if a whole checkpoint does not fit: the file is good, and an
// older one would not fit either.
LoadOutcome autoresume(const TrainerOptions& options, State& state, const CheckpointSaver& saver,
                       Logger& logger);

}  // namespace cairn
