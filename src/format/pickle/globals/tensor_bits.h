// PyTorch's lazy conjugation and negation.
#pragma once

#include <memory>

#include "cairn/tensor.h"

namespace cairn::pickle {

struct PendingBits {
  bool is_conj = false;
  bool is_neg = false;
};

// Returns whether elements of `dtype` can have these bits.
bool can_have(PendingBits pending, DType dtype);

// Returns another storage, whose elements are conjugated or negated each time its bytes are asked
// for.
std::shared_ptr<const Storage> with_bits_resolved(std::shared_ptr<const Storage> storage,
                                                  DType dtype, PendingBits pending);

}  // namespace cairn::pickle
