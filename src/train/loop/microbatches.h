// Cuts a batch into parts, of which the device holds one at a time. With
// device_train_microbatch_size "auto" (State::auto_microbatching; Composer's _train_batch) the
// parts get smaller when a device's memory runs out:
//
//  1. The batch, the states of the generators and the model's buffers are kept.
//  2. All ranks compute the batch, and average no gradients yet.
//  3. The ranks tell one another whether any of them ran out of memory: one message a batch. So no
//     rank waits for the gradients of a rank that has none.
//  4. If one did, all ranks drop gradients, outputs and loss, restore what step 1 kept, halve the
//     size, and go to step 2. Training then has the bits of a run with that size, unless forward
//     changes more than generators and buffers.
//
// The allocator's caches are not emptied: CUDA's frees its unused blocks before it reports that
// there is no memory.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "train/loop/loop_context.h"

namespace cairn {

struct MicrobatchWork {
  // Called while state.batch is the part, on the device. `share` is the part's share in the total
  // weight, or 1 if there is no `weight`. If all parts weigh nothing, samples count.
  std::function<void(double share)> use;
  // Called for all parts before the first use().
  std::function<double(const Batch& part)> weight = nullptr;
};

// Does `work` for each part of state.batch in turn. Parts have at most `size` samples. The batch is
// not cut if it has no more samples than that, or if `size` is absent. Afterwards state.batch is
// the whole batch again. The model's outputs for a part are dropped before the next part is placed.
void for_each_microbatch(LoopContext& context, std::optional<std::int64_t> size,
                         const MicrobatchWork& work);

// The number of parts that for_each_microbatch() would make.
std::size_t count_microbatches(const LoopContext& context, std::optional<std::int64_t> size);

struct BatchAttempt {
  // The steps before the first part, which may be collectives. Errors of it are not caught.
  std::function<void()> begin;
  // Forward and backward of state.batch, without any collective.
  std::function<void()> compute;
};

// Returns when all ranks have computed the batch. Throws TrainingError on all ranks if a part of
// one sample does not fit.
void compute_in_parts_that_fit(LoopContext& context, const BatchAttempt& attempt);

// Whether `error`, or an exception nested in it, says that the memory of a device ran out.
bool is_out_of_device_memory(const std::exception& error);

// Why the size cannot be "auto": a sentence, or "" if it can.
std::string auto_microbatch_problem(bool on_cpu, bool is_sharded);

}  // namespace cairn
