// The position of the train loader, and how training returns to it.
//
//  1. The position is timestamp.epoch and timestamp.batch_in_epoch. A loader seeks to this
//     position.
//  2. A loader that draws its order from torch's global generator also needs that generator's state
//     from the start of the epoch (after base_seed.h). That state is kept in state.dataset_state,
//     which checkpoints hold:
//       {"cairn": {"seed": <for loaders without their own>,
//                  "rng": <generator's state>, "loader": <loader's state_dict()>,
//                  "dealt": {"batch": <number in the epoch>, "samples": <had before it>}}}
//     "rng" is written only for such loaders; with several ranks it is a list of all ranks' states.
//     "dealt" is written by step 5. Before the first epoch dataset_state is None.
//  3. A resume inside an epoch restores the generator from the start of the epoch, seeks, and then
//     restores the generators of the checkpoint. So every later draw equals the draw of an
//     uninterrupted run: nothing draws between the checkpoint and the next batch.
//  4. Composer's files have no such entry. Loaders with their own order need none. If a Python
//     dataset wrote its position to dataset_state, cairn does not write that position again, since
//     it would be stale.
//  5. With another number of ranks, the position is the number of samples that all ranks together
//     had. The rest of the epoch is dealt to the present ranks. The epoch then has as many batches
//     as were trained, plus the batches of the rest. The point at which the rest was dealt is kept
//     until the epoch ends: positions count batches from that point.
//  6. An evaluation may use the train loader's own object. Before training draws from it again, the
//     loader seeks as on resume, with the generators as they are.
//  7. A shuffling loader without its own seed takes the run's seed. The run's seed is
//     rank_zero_seed of the first start, and stays with the run ("seed"). A checkpoint without
//     "seed" comes from an older cairn or from Composer. The run then uses 0, the default of the
//     loaders and samplers of both.
#pragma once

#include <optional>
#include <string>

#include "cairn/train/logger.h"
#include "cairn/train/state.h"

namespace cairn {

// Gives a loader (for training or not) the seed of the run (step 7). Call it before any other
// function of this file, and before the loader's epochs.
void seed_loader(const State& state, DataLoaderBase& loader);

// Begins epoch timestamp.epoch of the train loader at its first batch.
void start_epoch(State& state);

// Begins epoch timestamp.epoch at its batch `batch`. Afterwards the generators have the state
// `rng`, or their previous state if `rng` is absent. If the epoch was dealt anew (step 5), returns
// how many batches it has in total; otherwise nullopt.
std::optional<std::int64_t> seek_in_epoch(State& state, Logger& logger, std::int64_t batch,
                                          const std::optional<Value>& rng);

// Compares the train loader with the train loader of a loaded checkpoint. Inside an epoch, throws
// MismatchError for a difference that the number of ranks does not explain. Between epochs, only
// warns, since no epoch has begun that a new order could harm. `resumed_from`: the checkpoint that
// autoresume found, or empty; for the advice in the error.
void check_loader(State& state, Logger& logger, const std::string& resumed_from);

}  // namespace cairn
