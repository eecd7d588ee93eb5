// Autoresume: which checkpoint the run goes on from (spec: Composer's Trainer, autoresume=True).
//
//  1. A run name, a save folder, a latest name and a saver of the whole state are required: without
//     any of them a restarted job could not find its own files, or go on from them. With several
//     savers it goes by the first that saves the whole state.
//  2. That saver's folder is looked into, and, when it is on this machine, every place that a
//     logger uploads its checkpoints to. Of what is found the furthest in training wins, so that a
//     file that was left here never beats a newer one that is far away; of equal ones the one here.
//     A place that cannot be asked ends the start: nobody knows what it has. In one that is far
//     away the pointer is asked first, and nothing is listed when it is good.
//  3. In a place the newest checkpoint that is this run's, by its run_name, wins, when its
//     structure is whole and every byte proves good while it is loaded; otherwise the next one.
//     Each one that is passed over is logged with the reason, those of other runs in one line, and
//     none is deleted. What cannot be read now ends the start (checkpoint/folder/find_latest.cpp
//     says what is what). When all that is there under names that this run would write is of other
//     runs, the start is refused: beginning beside them would write over them.
//     Of several processes rank 0 looks, and all load what it found; on several machines without a
//     file system in common it looks at what all of them have together (joint_checkpoints.h). What
//     proves bad is passed over when none of them could load it, or when each has looked at its own
//     rows alone; otherwise the start ends, on all.
//  4. When there is one, it replaces load_path, and the options that were meant for the first
//     start (load_weights_only, load_ignore_keys, load_exclude_algorithms) are not used, and a line
//     says so. Only load_strict_model_weights stays.
//  5. Otherwise load_path with its options is loaded, or training starts fresh.
#pragma once

#include "resuming/load_run.h"

namespace cairn {

class CheckpointSaver;

// Throws UsageError if a restarted job could not find what `saver` saves.
void require_findable(const CheckpointSaver& saver);

// Collective. All of the steps: finds, loads, and goes back to step 2 without a checkpoint that
// turns out to be undecodable when it is loaded. When there is no other, and it was the disk that
// did not give its bytes, or somebody wrote into it, its error is thrown: that is no reason to
// begin again. StorageError when the saver's folder cannot be read, UsageError when it is another
// run's, MismatchError for a checkpoint that is whole and does not fit: that is no fault of the
// file, and an older one would not fit either. `saver` is the first of the whole state.
LoadOutcome autoresume(const TrainerOptions& options, State& state, const CheckpointSaver& saver,
                       Logger& logger);

}  // namespace cairn
