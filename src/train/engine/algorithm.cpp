#include "cairn/train/algorithm.h"

namespace cairn {

Value Algorithm::state_dict() const { return Dict{{"repr", repr()}}; }

}  // namespace cairn
