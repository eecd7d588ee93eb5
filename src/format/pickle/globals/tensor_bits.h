// PyTorch's lazy conjugation and negation.
#pragma once

#include <memory>

#include "cairn/tensor.h"

namespace cairn::pickle {

struct PendingBits {
  bool is_conj = false;
  bool is_neg = false;
};

// Whether elements of `dtype` can have them.
bool can_have(PendingBits pending, DType dtype);

// Another storage, in whose elements they are carried out whenever its bytes are asked for.
std::shared_ptr<const Storage> with_bits_resolved(std::shared_ptr<const Storage> storage,
                                                  DType dtype, PendingBits pending);

}  // namespace cairn::pickle
