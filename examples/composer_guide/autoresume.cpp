// Composer's guide "Auto Resumption". Its examples with an object store are in remote.cpp. The one
// about fine-tuning is here without its uploading logger.
#include <torch/torch.h>

#include "cairn/train/trainer.h"

#include "guide.h"

namespace guide {

using cairn::Trainer;

// The introduction. Returns the epoch at which the run began.
std::int64_t resume_automatically(Model model, DataSpec train_dataloader) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "10ep",
      .run_name = "my_cool_run",
      .save_folder = "./path/to/folder",
      .autoresume = true,
  });
  const std::int64_t first_epoch = trainer.state().timestamp.epoch;
  trainer.fit();
  return first_epoch;
}

// "Example: Fine-tuning". Returns the epoch at which the run began.
std::int64_t fine_tune_on_a_spot_instance(Model model, DataSpec train_dataloader) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "10ep",
      .run_name = "my_cool_run",
      .load_path = "pretrained_weights/model.pt",
      .load_weights_only = true,
      .save_folder = "checkpoints",
      .autoresume = true,
  });
  const std::int64_t first_epoch = trainer.state().timestamp.epoch;
  trainer.fit();
  return first_epoch;
}

}  // namespace guide
