// The part of a checkpoint for random generators (composer/utils/reproducibility.py).
#pragma once

#include <cstdint>

#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// Seeds torch's generators (the CPU's, and the current device's, if there is one). Also seeds the
// Python and numpy states that checkpoints hold for Python. Throws UsageError outside [0, 2^32 -
// 1].
void seed_all(std::int64_t seed);

// A seed from the operating system's random source, in [0, 2^32 - 1].
std::int64_t random_seed();

// The "rng" list of a checkpoint: one dict with "python", "numpy", "torch" and, if a device
// generator is in use, "cuda". "python" and "numpy" are Python's random.getstate() and numpy's
// legacy state. C++ draws from neither, so both are as the last restore or seed_all() set them. In
// a job of several processes the one entry is that of this rank; checkpoints have the entries of
// all ranks.
Value rng_states();

// Sets the generators from the first entry of such a list, written by cairn or Composer. Checks
// everything first: if an entry is malformed, throws MismatchError and changes nothing. A list
// without an entry changes nothing and returns false.
bool restore_rng_states(const Value& states);

// The state of torch's CPU generator alone: the 5056 bytes of torch.get_rng_state().
Value cpu_rng_state();
void set_cpu_rng_state(const Value& state);

}  // namespace cairn
