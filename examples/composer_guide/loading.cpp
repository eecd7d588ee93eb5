// Composer's guide "Checkpointing": "Resume training", "Fine-tuning", "Loading Weights Externally".
#include <torch/torch.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "guide.h"

namespace guide {

using cairn::Trainer;

// "Resume training", and the first example of "Auto Resumption". Returns the last epoch.
std::int64_t resume_training(Model model, DataSpec train_dataloader) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "90ep",
      .load_path = "./path/to/checkpoints/ep25.pt",
      .save_overwrite = true,
  });
  trainer.fit();
  return trainer.state().timestamp.epoch;
}

// "Fine-tuning".
void fine_tune(Model finetune_model, DataSpec finetune_dataloader) {
  Trainer ft_trainer({
      .model = finetune_model,
      .train_dataloader = finetune_dataloader,
      .max_duration = "10ep",
      .load_path = "./path/to/checkpoints/ep50.pt",
      .load_weights_only = true,
      .load_strict_model_weights = false,
  });
  ft_trainer.fit();
}

// "Loading Weights Externally".
void load_weights_externally(torch::nn::Module& model) {
  const cairn::Value state_dict = cairn::load("./path/to/checkpoints/ep1.pt");
  cairn::load_state_dict(model, state_dict.at("state").at("model"));
}

}  // namespace guide
