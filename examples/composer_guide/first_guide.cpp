// Composer's first guide to checkpointing (2021), with today's names: `load_path_format` is
// `load_path`, and the folder that `trainer.checkpoint_saver.checkpoint_folder` named is the
// save_folder itself. Its example paths are absolute; here they are relative.
#include <torch/torch.h>

#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "guide.h"

namespace guide {

using cairn::Trainer;

// The introduction: save checkpoints every epoch.
void first_save(Model model, DataSpec dataloader) {
  Trainer trainer({
      .model = model,
      .train_dataloader = dataloader,
      .max_duration = "1ep",
      .save_folder = "path/to/checkpoints",
      .save_filename = "ep{epoch}.pt",
      .save_interval = "1ep",
  });
  trainer.fit();
}

// "Anatomy of a checkpoint".
Anatomy first_anatomy() {
  return anatomy_of({(std::filesystem::path("path/to/checkpoints") / "ep1.pt").string()});
}

// "Resume training". Returns the last epoch.
std::int64_t first_resume(Model model, DataSpec dataloader) {
  Trainer trainer({
      .model = model,
      .train_dataloader = dataloader,
      .max_duration = "90ep",
      .eval_dataloader = {},
      .load_path = "path/to/checkpoint/ep25.pt",
  });
  trainer.fit();
  return trainer.state().timestamp.epoch;
}

// "Fine-tuning".
void first_fine_tune(Model model, DataSpec finetune_dataloader) {
  Trainer ft_trainer({
      .model = model,
      .train_dataloader = finetune_dataloader,
      .max_duration = "10ep",
      .eval_dataloader = {},
      .load_path = "path/to/checkpoint/ep50.pt",
      .load_weights_only = true,
  });
  ft_trainer.fit();
}

// "Loading weights externally".
void first_load_weights_externally(torch::nn::Module& model) {
  const cairn::Value state_dict = cairn::load("path/to/checkpoint/ep15.pt");
  cairn::load_state_dict(model, state_dict.at("state").at("model"));
}

}  // namespace guide
