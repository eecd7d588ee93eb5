// PyTorch's lazy conjugation and negation.
#pragma once

#include "cairn/tensor.h"

namespace cairn::pickle {

// Gives `tensor` a storage of its own, in which the pending operations are carried out whenever its
// bytes are asked for.
// UnsupportedError for a dtype that cannot have them.
void resolve_bits(TensorView& tensor, bool is_conj, bool is_neg);

}  // namespace cairn::pickle
