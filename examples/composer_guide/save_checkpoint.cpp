// Composer's reference of composer.utils.save_checkpoint: its scenario, epoch 1 and batch 42.
#include <torch/torch.h>

#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "guide.h"

namespace guide {

std::string save_by_hand(const cairn::State& state) {
  return cairn::save_checkpoint(state, "ep{epoch}-ba{batch}-rank{rank}", {.weights_only = false});
}

}  // namespace guide
