// States of the two Mersenne twisters that a Python program has besides torch's generators. C++
// draws from neither, but a checkpoint that Python resumes from needs valid ones.
#pragma once

#include <cstdint>

#include "cairn/value.h"

namespace cairn {

// random.getstate() after random.seed(seed).
Value python_random_state(std::uint32_t seed);

// numpy.random.get_state() after numpy.random.seed(seed). Its array is pickled by a name that every
// numpy knows, and that PyTorch's weights_only accepts with Composer's list.
Value numpy_random_state(std::uint32_t seed);

// Converts a state that some Python or an older cairn wrote: sequences become tuples, numpy's array
// stays. Throws MismatchError for a state that the generator would refuse.
Value checked_python_state(const Value& state);
Value checked_numpy_state(const Value& state);

}  // namespace cairn
