// States of the two Mersenne twisters that a Python program has besides torch's generators. C++
// draws from neither, but a checkpoint that Python resumes needs valid ones.
#pragma once

#include <cstdint>

#include "cairn/value.h"

namespace cairn {

// random.getstate() after random.seed(seed).
Value python_random_state(std::uint32_t seed);

// numpy.random.get_state() after numpy.random.seed(seed). Its array is pickled by a name that every
// numpy knows, and PyTorch's weights_only with Composer's list.
Value numpy_random_state(std::uint32_t seed);

// The same state, from what some Python or an older cairn wrote: sequences become tuples, numpy's
// array stays. MismatchError for what neither generator would accept.
Value checked_python_state(const Value& state);
Value checked_numpy_state(const Value& state);

}  // namespace cairn
