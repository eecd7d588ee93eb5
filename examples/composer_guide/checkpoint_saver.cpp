// Composer's reference of CheckpointSaver: its example, and those of `ignore_keys`.
#include "cairn/callbacks/checkpoint_saver.h"

#include <torch/torch.h>

#include "cairn/train/trainer.h"

#include "guide.h"

namespace guide {

using cairn::CheckpointSaver;
using cairn::Trainer;

void save_with_a_callback(Model model, DataSpec train_dataloader) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "1ep",
      .callbacks = {CheckpointSaver({
          .folder = "{run_name}/checkpoints",
          .filename = "ep{epoch}-ba{batch}-rank{rank}",
          .latest_filename = "latest-rank{rank}",
          .save_interval = "1ep",
          .weights_only = false,
      })},
      .run_name = "awesome-training-run",
  });
  trainer.fit();
}

// Example 1: {"state/model/layer1.weights", "state/model/layer1.bias"}; 2: {"state/model/*"};
// 3: {"state/model/layer*.weights"}; 4: {"state/rank_zero_seed", "rng"}.
void save_without(Model model, DataSpec train_dataloader, std::vector<std::string> ignore_keys) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "1ep",
      .save_folder = "checkpoints",
      .save_filename = "ep{epoch}.pt",
      .save_ignore_keys = ignore_keys,
  });
  trainer.fit();
}

}  // namespace guide
