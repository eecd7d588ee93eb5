// Runs every example of examples/composer_guide in an empty folder, on tiny data, and checks what
// Composer's guides say about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/train/rng.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "composer_guide/guide.h"
#include "testing/temp_folder.h"

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

// A network with the names that the ignore_keys examples use.
struct Net : torch::nn::Module {
  explicit Net(bool with_head) {
    register_module("layer1", layer1);
    register_module(with_head ? "new_head" : "layer2", layer2);
  }
  at::Tensor forward(const at::Tensor& x) { return layer2(torch::relu(layer1(x))); }
  torch::nn::Linear layer1{4, 5};
  torch::nn::Linear layer2{5, 2};
};

// Like a user's own ComposerModel: names in checkpoints have no "module." prefix.
class TinyModel final : public cairn::Model {
 public:
  explicit TinyModel(bool with_head = false) : net_(std::make_shared<Net>(with_head)) {}
  torch::nn::Module& module() override { return *net_; }
  cairn::Outputs forward(const cairn::Batch& batch) override { return net_->forward(batch[0]); }
  cairn::Losses loss(const cairn::Outputs& outputs, const cairn::Batch& batch) override {
    return cairn::soft_cross_entropy(outputs.single(), batch[1]);
  }
  Net& net() { return *net_; }

 private:
  std::shared_ptr<Net> net_;
};

// An epoch of two batches of four samples.
cairn::DataLoader tiny_data(std::int64_t samples = 8, std::int64_t batch_size = 4) {
  const at::Tensor x = torch::arange(samples * 4, torch::kFloat32).view({samples, 4}).sin();
  const at::Tensor y = torch::arange(samples) % 2;
  return cairn::DataLoader(cairn::tensor_dataset({x, y}),
                           {.batch_size = batch_size, .shuffle = true});
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

cairn::Value weights_in(const std::string& checkpoint) {
  return cairn::load(checkpoint).at("state").at("model");
}

// Trains for `epochs` and leaves only the last checkpoint.
void leave_checkpoint(const std::string& folder, int epochs) {
  cairn::seed_all(1);
  cairn::Trainer trainer({
      .model = std::make_shared<TinyModel>(),
      .train_dataloader = tiny_data(),
      .max_duration = epochs,
      .progress_bar = false,
      .save_folder = folder,
      .save_filename = "ep{epoch}.pt",
      .save_interval = epochs,
      .seed = 1,
  });
  trainer.fit();
}

class ComposerGuide : public ::testing::Test {
 public:
  ComposerGuide() {
    fs::current_path(folder_.path());
    cairn::seed_all(5);
  }
  ~ComposerGuide() override { fs::current_path(before_); }

 protected:
  fs::path before_ = fs::current_path();
  cairn::testing::TempFolder folder_;
  std::shared_ptr<TinyModel> model_ = std::make_shared<TinyModel>();
};

TEST_F(ComposerGuide, FirstExampleNamesCheckpointsAndTheLinkToTheLatest) {
  guide::save_with_own_names(model_, tiny_data());
  EXPECT_THAT(names_in("path/to/checkpoints"), ElementsAre("ep1", "ep2", "latest"));
  EXPECT_EQ(fs::read_symlink("path/to/checkpoints/latest"), "ep2");
  EXPECT_EQ(weights_in("path/to/checkpoints/latest"), cairn::state_dict(model_->net()));
}

TEST_F(ComposerGuide, IntegerIntervalSavesEveryEpoch) {
  guide::save_at(model_, tiny_data(), 1);
  EXPECT_EQ(names_in("path/to/checkpoints").size(), 52 + 1U);
}

TEST_F(ComposerGuide, TenEpochIntervalSavesEveryTenEpochsAndAtTheEnd) {
  guide::save_at(model_, tiny_data(), "10ep");
  EXPECT_THAT(names_in("path/to/checkpoints"),
              ElementsAre("ep10-ba20-rank0.pt", "ep20-ba40-rank0.pt", "ep30-ba60-rank0.pt",
                          "ep40-ba80-rank0.pt", "ep50-ba100-rank0.pt", "ep52-ba104-rank0.pt",
                          "latest-rank0.pt"));
}

TEST_F(ComposerGuide, BatchIntervalSavesEveryFiveHundredBatches) {
  guide::save_at(model_, tiny_data(20, 1), "500ba");  // 20 batches an epoch
  EXPECT_THAT(names_in("path/to/checkpoints"),
              // The last batch of an epoch is saved before the epoch counts as done.
              ElementsAre("ep24-ba500-rank0.pt", "ep49-ba1000-rank0.pt", "ep52-ba1040-rank0.pt",
                          "latest-rank0.pt"));
}

TEST_F(ComposerGuide, FunctionIntervalSavesEveryEpochAfterTheFiftieth) {
  guide::save_at(model_, tiny_data(), guide::save_after_epoch_50());
  EXPECT_THAT(names_in("path/to/checkpoints"),
              ElementsAre("ep51-ba102-rank0.pt", "ep52-ba104-rank0.pt", "latest-rank0.pt"));
}

TEST_F(ComposerGuide, SavedCheckpointsListsTheFileWithTheKeysOfTheGuide) {
  const std::vector<std::string> saved = guide::save_every_epoch(model_, tiny_data());
  EXPECT_THAT(saved, ElementsAre("./path/to/checkpoints/ep1.pt"));
  const guide::Anatomy anatomy = guide::anatomy_of(saved);
  EXPECT_THAT(anatomy.top_level, ElementsAre("state", "rng"));
  // The guide's list, without train_metrics and eval_metrics: those now need save_metrics.
  EXPECT_THAT(anatomy.state, ElementsAre("model", "optimizers", "schedulers", "algorithms",
                                         "callbacks", "scaler", "timestamp", "rank_zero_seed",
                                         "run_name", "dataset_state", "integrations", "metadata"));
}

TEST_F(ComposerGuide, ResumingFromEpoch25TrainsAnother65) {
  leave_checkpoint("path/to/checkpoints", 25);
  EXPECT_EQ(guide::resume_training(model_, tiny_data()), 90);
  leave_checkpoint("straight", 90);
  EXPECT_EQ(cairn::state_dict(model_->net()), weights_in("straight/ep90.pt"));
}

TEST_F(ComposerGuide, SavingForInferenceKeepsNothingButTheModel) {
  guide::save_for_inference(model_, tiny_data());
  const guide::Anatomy anatomy = guide::anatomy_of({"checkpoints/ep1-ba2-rank0.pt"});
  EXPECT_THAT(anatomy.top_level, ElementsAre("state"));
  EXPECT_THAT(anatomy.state, ElementsAre("model", "integrations", "metadata"));
}

TEST_F(ComposerGuide, TwoSaversKeepOneFullCheckpointAndEveryWeightsFile) {
  guide::save_two_kinds(model_, tiny_data());
  EXPECT_THAT(names_in("full_checkpoints"), ElementsAre("ep10-ba20-rank0.pt", "latest-rank0.pt"));
  EXPECT_EQ(names_in("weights_only_checkpoints").size(), 10 + 1U);
  EXPECT_THAT(guide::anatomy_of({"full_checkpoints/ep10-ba20-rank0.pt"}).top_level,
              ElementsAre("state", "rng"));
  EXPECT_THAT(guide::anatomy_of({"weights_only_checkpoints/ep1-ba2-rank0.pt"}).top_level,
              ElementsAre("state"));
}

// The layer's output shows which weights it has.
at::Tensor layer1_of(const cairn::Value& weights) {
  return cairn::tensor_of(weights.at("layer1.weight").as_tensor());
}

TEST_F(ComposerGuide, FineTuningStartsFromTheWeightsAndIgnoresOtherNames) {
  leave_checkpoint("path/to/checkpoints", 50);
  auto finetune_model = std::make_shared<TinyModel>(/*with_head=*/true);
  const at::Tensor own = finetune_model->net().layer1->weight.detach().clone();
  guide::fine_tune(finetune_model, tiny_data());
  // Ten epochs move the weights a little from those of the checkpoint, and far from the model's
  // own.
  const at::Tensor loaded = layer1_of(weights_in("path/to/checkpoints/ep50.pt"));
  const at::Tensor now = finetune_model->net().layer1->weight.detach();
  EXPECT_LT((now - loaded).norm().item<float>(), (now - own).norm().item<float>());
}

TEST_F(ComposerGuide, WeightsLoadIntoAModelOutsideOfATrainer) {
  leave_checkpoint("path/to/checkpoints", 1);
  guide::load_weights_externally(model_->net());
  EXPECT_EQ(cairn::state_dict(model_->net()), weights_in("path/to/checkpoints/ep1.pt"));
}

TEST_F(ComposerGuide, ResubmittedRunResumesFromItsLatestCheckpoint) {
  {
    // The first submission is stopped after four epochs.
    cairn::Trainer trainer({
        .model = std::make_shared<TinyModel>(),
        .train_dataloader = tiny_data(),
        .max_duration = "4ep",
        .run_name = "my_cool_run",
        .progress_bar = false,
        .save_folder = "./path/to/folder",
    });
    trainer.fit();
  }
  EXPECT_EQ(guide::resume_automatically(model_, tiny_data()), 4);
  EXPECT_EQ(names_in("path/to/folder").size(), 10 + 1U);
  // A third submission finds the run finished.
  EXPECT_EQ(guide::resume_automatically(std::make_shared<TinyModel>(), tiny_data()), 10);
}

TEST_F(ComposerGuide, FineTuningOnASpotInstanceUsesLoadPathOnlyAtFirst) {
  leave_checkpoint("trained", 3);
  fs::create_directory("pretrained_weights");
  fs::rename("trained/ep3.pt", "pretrained_weights/model.pt");
  EXPECT_EQ(guide::fine_tune_on_a_spot_instance(model_, tiny_data()), 0);
  EXPECT_EQ(names_in("checkpoints").size(), 10 + 1U);
  fs::remove("pretrained_weights/model.pt");
  EXPECT_EQ(guide::fine_tune_on_a_spot_instance(std::make_shared<TinyModel>(), tiny_data()), 10);
}

TEST_F(ComposerGuide, CallbackOfTheReferenceSavesUnderTheRunsName) {
  guide::save_with_a_callback(model_, tiny_data(42, 1));
  EXPECT_THAT(names_in("awesome-training-run/checkpoints"),
              ElementsAre("ep1-ba42-rank0", "latest-rank0"));
  EXPECT_EQ(fs::read_symlink("awesome-training-run/checkpoints/latest-rank0"), "ep1-ba42-rank0");
}

TEST_F(ComposerGuide, IgnoreKeysLeaveOutTwoTensors) {
  // The reference says "weights" and "bias"; a Linear has "weight".
  guide::save_without(model_, tiny_data(),
                      {"state/model/layer1.weight", "state/model/layer1.bias"});
  EXPECT_THAT(guide::anatomy_of({"checkpoints/ep1.pt"}).state, IsSupersetOf({"model"}));
  const cairn::Value weights = weights_in("checkpoints/ep1.pt");
  EXPECT_EQ(weights.find("layer1.weight"), nullptr);
  EXPECT_EQ(weights.find("layer1.bias"), nullptr);
  EXPECT_NE(weights.find("layer2.weight"), nullptr);
}

TEST_F(ComposerGuide, IgnoreKeysLeaveOutTheWholeModel) {
  guide::save_without(model_, tiny_data(), {"state/model/*"});
  const cairn::Value state = cairn::load("checkpoints/ep1.pt").at("state");
  const cairn::Value* model = state.find("model");
  EXPECT_TRUE(!model || model->as_dict().empty());
  EXPECT_NE(state.find("optimizers"), nullptr);
}

TEST_F(ComposerGuide, IgnoreKeysLeaveOutAllWeightsOfTheLayers) {
  guide::save_without(model_, tiny_data(), {"state/model/layer*.weight"});
  const cairn::Value weights = weights_in("checkpoints/ep1.pt");
  EXPECT_EQ(weights.as_dict().size(), 2U);
  EXPECT_NE(weights.find("layer1.bias"), nullptr);
  EXPECT_NE(weights.find("layer2.bias"), nullptr);
}

TEST_F(ComposerGuide, IgnoreKeysLeaveOutAllRandomness) {
  guide::save_without(model_, tiny_data(), {"state/rank_zero_seed", "rng"});
  const cairn::Value checkpoint = cairn::load("checkpoints/ep1.pt");
  EXPECT_EQ(checkpoint.find("rng"), nullptr);
  EXPECT_EQ(checkpoint.at("state").find("rank_zero_seed"), nullptr);
  EXPECT_NE(checkpoint.at("state").find("model"), nullptr);
}

TEST_F(ComposerGuide, SaveCheckpointNamesTheFileByEpochAndBatch) {
  cairn::Trainer trainer({
      .model = model_,
      .train_dataloader = tiny_data(42, 1),
      .max_duration = "1ep",
      .progress_bar = false,
  });
  trainer.fit();
  EXPECT_EQ(guide::save_by_hand(trainer.state()), "ep1-ba42-rank0");
  EXPECT_THAT(guide::anatomy_of({"ep1-ba42-rank0"}).top_level, ElementsAre("state", "rng"));
}

TEST_F(ComposerGuide, FirstGuideSavesEveryEpoch) {
  guide::first_save(model_, tiny_data());
  EXPECT_THAT(names_in("path/to/checkpoints"), IsSupersetOf({"ep1.pt"}));
  const guide::Anatomy anatomy = guide::first_anatomy();
  EXPECT_THAT(anatomy.top_level, UnorderedElementsAre("rng", "state"));
  // "timer" is now "timestamp", "rng" is beside the state, and "is_model_ddp" is gone.
  EXPECT_THAT(anatomy.state, IsSupersetOf({"model", "timestamp", "optimizers", "schedulers",
                                           "scaler", "algorithms", "callbacks", "rank_zero_seed"}));
}

TEST_F(ComposerGuide, FirstGuideResumesFromEpoch25AndTrainsAnother65) {
  leave_checkpoint("path/to/checkpoint", 25);
  EXPECT_EQ(guide::first_resume(model_, tiny_data()), 90);
}

TEST_F(ComposerGuide, FirstGuideFineTunesFromTheWeightsOfEpoch50) {
  leave_checkpoint("path/to/checkpoint", 50);
  const at::Tensor own = model_->net().layer1->weight.detach().clone();
  guide::first_fine_tune(model_, tiny_data());
  const at::Tensor loaded = layer1_of(weights_in("path/to/checkpoint/ep50.pt"));
  const at::Tensor now = model_->net().layer1->weight.detach();
  EXPECT_LT((now - loaded).norm().item<float>(), (now - own).norm().item<float>());
}

TEST_F(ComposerGuide, FirstGuideLoadsWeightsOutsideOfATrainer) {
  leave_checkpoint("path/to/checkpoint", 15);
  guide::first_load_weights_externally(model_->net());
  EXPECT_EQ(cairn::state_dict(model_->net()), weights_in("path/to/checkpoint/ep15.pt"));
}

}  // namespace
