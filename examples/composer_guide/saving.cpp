// Composer's guide "Checkpointing", from its start to "Saving Multiple Checkpoint Types".
#include <torch/torch.h>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/train/trainer.h"

#include "guide.h"

namespace guide {

using cairn::CheckpointSaver;
using cairn::Event;
using cairn::State;
using cairn::Trainer;

// "Checkpointing": the folder, the names and the link.
void save_with_own_names(Model model, DataSpec train_dataloader) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "2ep",
      .save_folder = "./path/to/checkpoints",
      .save_filename = "ep{epoch}",
      .save_latest_filename = "latest",
      .save_overwrite = true,
  });
  trainer.fit();
}

// "Save Interval": a function; the other three forms are 1, "10ep" and "500ba".
cairn::Interval save_after_epoch_50() {
  return [](const State& state, Event event) {
    return state.timestamp.epoch > 50 && event == Event::kEpochCheckpoint;
  };
}

void save_at(Model model, DataSpec train_dataloader, cairn::Interval save_interval) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "52ep",
      .save_folder = "./path/to/checkpoints",
      .save_interval = save_interval,
  });
  trainer.fit();
}

// "Save Interval": a complete example, with the checkpoints that "Anatomy of a Checkpoint" lists.
std::vector<std::string> save_every_epoch(Model model, DataSpec train_dataloader) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "1ep",
      .save_folder = "./path/to/checkpoints",
      .save_filename = "ep{epoch}.pt",
      .save_overwrite = true,
      .save_interval = "1ep",  // save checkpoints every epoch
  });
  trainer.fit();
  return trainer.saved_checkpoints();
}

namespace {
std::vector<std::string> keys_of(const cairn::Value& dict) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : dict.as_dict())
    keys.push_back(key.as_str());
  return keys;
}
}  // namespace

// "Anatomy of a Checkpoint".
Anatomy anatomy_of(const std::vector<std::string>& saved_checkpoints) {
  const std::string& latest_checkpoint = saved_checkpoints.back();
  const cairn::Value state_dict = cairn::load(latest_checkpoint);
  return {keys_of(state_dict), keys_of(state_dict.at("state"))};
}

// "Saving for Inference".
void save_for_inference(Model model, DataSpec train_dataloader) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "1ep",
      .save_folder = "checkpoints",
      .save_overwrite = true,
      .save_weights_only = true,
  });
  trainer.fit();
}

// "Saving Multiple Checkpoint Types".
void save_two_kinds(Model model, DataSpec train_dataloader) {
  Trainer trainer({
      .model = model,
      .train_dataloader = train_dataloader,
      .max_duration = "10ep",
      .callbacks =
          {
              CheckpointSaver({
                  .folder = "full_checkpoints",
                  .save_interval = "5ep",
                  .overwrite = true,
                  .num_checkpoints_to_keep = 1,  // only keep the latest, full checkpoint
              }),
              CheckpointSaver({
                  .folder = "weights_only_checkpoints",
                  .overwrite = true,
                  .weights_only = true,
              }),
          },
  });
  trainer.fit();
}

}  // namespace guide
