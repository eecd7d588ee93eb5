// Every example of Composer's guides to checkpointing in C++, with the same arguments and values.
// Each file names the guide and the section that it follows. tests/examples/composer_guide_test.cpp
// and guide_remote_test.cpp run each example and check what the guide says about it.
//
// Paths are relative, as in the guides: run them in a folder of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/train/data.h"
#include "cairn/train/duration.h"
#include "cairn/train/interval.h"
#include "cairn/train/model.h"
#include "cairn/value.h"

namespace cairn {
class State;
}

namespace guide {

using Model = std::shared_ptr<cairn::Model>;
using DataSpec = cairn::DataSpecOrLoader;

// saving.cpp
void save_with_own_names(Model model, DataSpec train_dataloader);
cairn::Interval save_after_epoch_50();
void save_at(Model model, DataSpec train_dataloader, cairn::Interval save_interval);
std::vector<std::string> save_every_epoch(Model model, DataSpec train_dataloader);
struct Anatomy {
  std::vector<std::string> top_level;
  std::vector<std::string> state;
};
Anatomy anatomy_of(const std::vector<std::string>& saved_checkpoints);
void save_for_inference(Model model, DataSpec train_dataloader);
void save_two_kinds(Model model, DataSpec train_dataloader);

// loading.cpp
std::int64_t resume_training(Model model, DataSpec train_dataloader);
void fine_tune(Model finetune_model, DataSpec finetune_dataloader);
void load_weights_externally(torch::nn::Module& model);

// autoresume.cpp
std::int64_t resume_automatically(Model model, DataSpec train_dataloader);
std::int64_t fine_tune_on_a_spot_instance(Model model, DataSpec train_dataloader);

// checkpoint_saver.cpp
void save_with_a_callback(Model model, DataSpec train_dataloader);
void save_without(Model model, DataSpec train_dataloader, std::vector<std::string> ignore_keys);

// save_checkpoint.cpp
std::string save_by_hand(const cairn::State& state);

// remote.cpp
void save_in_a_bucket(Model model, DataSpec train_dataloader, const std::string& bucket);
void upload_with_a_logger(Model model, DataSpec train_dataloader, const std::string& bucket);
std::int64_t load_from_a_store(Model model, DataSpec train_dataloader, const std::string& bucket);
std::int64_t load_with_hparams(Model model, DataSpec train_dataloader, const std::string& bucket);
std::int64_t load_from_a_uri(Model model, DataSpec train_dataloader, const std::string& bucket);
std::int64_t resume_from_a_bucket(Model model, DataSpec train_dataloader, const std::string& bucket,
                                  cairn::Duration max_duration);
std::int64_t fine_tune_with_a_logger(Model model, DataSpec train_dataloader,
                                     const std::string& bucket);
void upload_the_run_directory(Model model, DataSpec train_dataloader, const std::string& bucket);

// first_guide.cpp
void first_save(Model model, DataSpec dataloader);
Anatomy first_anatomy();
std::int64_t first_resume(Model model, DataSpec dataloader);
void first_fine_tune(Model model, DataSpec finetune_dataloader);
void first_load_weights_externally(torch::nn::Module& model);

}  // namespace guide
