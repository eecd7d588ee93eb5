// Where the train loader stands, and how training comes back there.
//
//  1. The position is timestamp.epoch and timestamp.batch_in_epoch; a loader seeks to it.
//  2. A loader that draws its order from torch's global generator needs that generator's state from
//     the start of the epoch (after base_seed.h), too. It is kept in state.dataset_state, which
//     checkpoints hold:
//       {"cairn": {"seed": <of loaders without their own>,
//                  "rng": <generator's state>, "loader": <loader's state_dict()>,
//                  "dealt": {"batch": <number in the epoch>, "samples": <had before it>}}}
//     ("rng" only for such loaders, and a list of all ranks' in a job of several processes;
//     "dealt" as of step 5; None before the first epoch.)
//  3. On resume inside an epoch: the generator as it was at the start of the epoch, seek, and then
//     the generators of the checkpoint. From there on every draw is the one that the run would
//     have made had it never stopped: nothing between the checkpoint and the next batch draws.
//  4. Files of Composer have no such entry. Loaders with an order of their own need none. What a
//     Python dataset wrote of its own position there is not written again: it would be stale.
//  5. With another number of ranks the position is the number of samples that all had together,
//     and the rest of the epoch is dealt to those that are there now. The epoch then has as many
//     batches as were trained and as the rest makes. Where it was dealt anew is kept until its end:
//     from there batches count.
//  6. An evaluation may go over the train loader's own object. Before training draws from it again
//     it seeks as on resume, with the generators as they are.
//  7. A loader that shuffles and was given no seed takes the run's. It is rank_zero_seed of the
//     first start, and stays with the run ("seed"). A checkpoint without it is of an older cairn,
//     or of Composer: the run goes on with 0, the default of their loaders and samplers.
#pragma once

#include <optional>
#include <string>

#include "cairn/train/logger.h"
#include "cairn/train/state.h"

namespace cairn {

// Gives a loader, of training or not, the seed of the run (step 7). Call it before anything else
// here, and before the loader's epochs.
void seed_loader(const State& state, DataLoaderBase& loader);

// Begins epoch timestamp.epoch of the train loader at its first batch.
void start_epoch(State& state);

// Begins epoch timestamp.epoch at batch `batch` of it. Afterwards the generators are in the state
// `rng`; as before, when it is absent. Returns how many batches the epoch has in the end when it
// was dealt anew (step 5); otherwise it has as many as ever.
std::optional<std::int64_t> seek_in_epoch(State& state, Logger& logger, std::int64_t batch,
                                          const std::optional<Value>& rng);

// Compares the train loader with the one of a loaded checkpoint. Inside an epoch a difference that
// is not explained by the number of ranks is a MismatchError; between epochs, where a new order
// harms nothing that was begun, a warning. `resumed_from`: the checkpoint that autoresume found;
// empty without, for the advice in the error.
void check_loader(State& state, Logger& logger, const std::string& resumed_from);

}  // namespace cairn
