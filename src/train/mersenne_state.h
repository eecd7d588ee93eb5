// States of the two Mersenne twisters that a Python program has besides torch's generators. C++
// draws from neither, but a checkpoint that Python resumes needs valid ones.
#pragma once

#include <cstdint>

#include "cairn/value.h"

namespace cairn {

// random.getstate() after random.seed(seed).
Value python_random_state(std::uint32_t seed);

// numpy.random.get_state() after numpy.random.seed(seed), with a tuple of ints for the array, which
// set_state() takes, too: no one name of numpy's module is known to every numpy, PyTorch's
// weights_only and Composer.
Value numpy_random_state(std::uint32_t seed);

// The same state as this library writes it, from what some Python wrote: sequences become tuples,
// numpy's array stays. MismatchError for what neither generator would accept.
Value checked_python_state(const Value& state);
Value checked_numpy_state(const Value& state);

}  // namespace cairn
