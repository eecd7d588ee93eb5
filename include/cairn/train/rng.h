// The random generators' part of a checkpoint (composer/utils/reproducibility.py).
#pragma once

#include <cstdint>

#include "cairn/value.h"

namespace cairn {

// Seeds torch's generators (CPU, and the current device's where there is one), and the Python and
// numpy states that checkpoints carry for Python's sake. UsageError outside [0, 2^32 - 1].
void seed_all(std::int64_t seed);

// A seed from the operating system's randomness, in [0, 2^32 - 1].
std::int64_t random_seed();

// The "rng" list of a checkpoint, one dict: "python", "numpy", "torch" and, where a
// device generator is in use, "cuda". The first two are Python's random.getstate() and numpy's
// legacy state: those of the last restore or seed_all(), since C++ draws from neither.
// In a job of several processes the one entry is this rank's; checkpoints have those of all.
Value rng_states();

// Sets the generators from the first entry of such a list, as written by cairn or Composer. All is
// checked first: MismatchError, and nothing is changed, when an entry is malformed. A list without
// an entry changes nothing and returns false.
bool restore_rng_states(const Value& states);

// torch's CPU generator alone: the 5056 bytes of torch.get_rng_state().
Value cpu_rng_state();
void set_cpu_rng_state(const Value& state);

}  // namespace cairn
