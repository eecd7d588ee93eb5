// autoresume: the same program, started again, continues where the last start stopped.

#include <gmock/gmock.h>
#include <torch/data.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/callbacks/early_stopper.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/rng.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "storage/local/local_store.h"
#include "testing/ballast.h"
#include "testing/environment_variable.h"
#include "testing/killed_run.h"
#include "testing/missing_bytes.h"
#include "testing/resumable_state.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Ballast;
using testing::CallAt;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::LogRecorder;
using ::testing::Not;
using testing::read_file;
using testing::run;
using testing::run_until;
using testing::TempFolder;
using testing::tiny_dataset;
using testing::tiny_loader;
using testing::tiny_options;
using testing::write_file;

constexpr std::int64_t kAllBatches = 15;  // 3 epochs of 5.

struct Autoresume : ::testing::Test {
  Autoresume() : log(std::make_shared<LogRecorder>()) {}

  TrainerOptions options(const std::string& where = "ckpt") {
    TrainerOptions made = tiny_options({.dropout = 0.3});
    made.train_dataloader = tiny_loader(10, {.batch_size = 2, .shuffle = true, .num_workers = 0});
    made.optimizers = AdamW({.lr = 0.01});
    made.schedulers = CosineAnnealingScheduler();
    made.max_duration = "3ep";
    made.run_name = "run";
    made.loggers = {log};
    made.save_folder = folder / where;
    made.save_interval = "1ba";
    made.autoresume = true;
    return made;
  }

  static Value resumable_state(const std::string& path) {
    return testing::resumable_state(load(path));
  }

  TempFolder folder;
  std::shared_ptr<LogRecorder> log;
};

// --- Early stopping ------------------------------------------------------------------------------

TEST_F(Autoresume, ARunThatEarlyStopperEndedIsFinished) {
  const auto start = [&](int patience) {
    TrainerOptions made = options();
    made.model = std::make_shared<testing::TinyModel>(testing::TinyModelOptions{.metrics = true});
    made.optimizers = SGD({.lr = 0.0});
    made.schedulers = {};
    made.max_duration = "10ep";
    made.save_interval = "1ep";
    made.eval_dataloader = tiny_loader(4);
    made.callbacks =
        EarlyStopper({.monitor = "MeanOutput", .dataloader_label = "eval", .patience = patience});
    return std::make_unique<Trainer>(std::move(made));
  };
  {
    const auto first = start(2);
    EXPECT_EQ(first->fit().reason, FitResult::Reason::kFinished);
    EXPECT_EQ(first->state().timestamp.epoch, 4);
  }
  for (int i = 0; i < 2; ++i) {
    const auto again = start(2);
    EXPECT_EQ(again->fit().reason, FitResult::Reason::kAlreadyFinished);
    EXPECT_EQ(again->state().timestamp.batch, 20);
  }
  EXPECT_THAT(log->messages, Contains(HasSubstr("the run run is already finished")));
  auto patient = start(4);
  EXPECT_EQ(patient->fit().reason, FitResult::Reason::kFinished);
  EXPECT_EQ(patient->state().timestamp.epoch, 6) << "a larger patience goes on";
  EXPECT_EQ(patient->fit({.duration = "1ep"}).reason, FitResult::Reason::kFinished);
  EXPECT_EQ(patient->state().timestamp.epoch, 7) << "asked for by name";
  patient.reset();
  const auto last = start(2);
  EXPECT_EQ(last->fit().reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_EQ(last->fit({.duration = "1ep"}).reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_EQ(last->state().timestamp.epoch, 7) << "that call was finished";
  EXPECT_EQ(last->fit({.duration = "1ep"}).reason, FitResult::Reason::kFinished);
  EXPECT_EQ(last->state().timestamp.epoch, 8) << "a further call is a new one";
}

// --- Iterations ----------------------------------------------------------------------------------

TEST_F(Autoresume, FromTheLastEpochOfAnIterationEndsTheIteration) {
  const auto start = [&](std::int64_t last) {
    TrainerOptions made = options();
    made.max_duration = "2iter";
    made.save_interval = "1ep";
    made.callbacks.push_back(CallAt(Event::kIterationEnd, [last](State& state) {
      if (state.timestamp.batch == last) throw CancelledError("killed");
    }));
    auto trainer = std::make_unique<Trainer>(std::move(made));
    trainer->state().iteration_length = Time("2ep");
    return trainer;
  };
  EXPECT_THROW(start(10)->fit(), CancelledError);
  {
    const auto resumed = start(0);
    EXPECT_EQ(resumed->state().timestamp.epoch_in_iteration, 2);
    EXPECT_EQ(resumed->fit().reason, FitResult::Reason::kFinished);
    EXPECT_EQ(resumed->state().timestamp.iteration, 2);
    EXPECT_EQ(resumed->state().timestamp.batch, 20);
  }
  const auto again = start(0);
  EXPECT_EQ(again->fit().reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_EQ(again->state().timestamp.batch, 20);
}

TEST_F(Autoresume, AnIterationIsNotEndedByEpochsOfBefore) {
  TrainerOptions made = options();
  made.max_duration = "3ep";
  Trainer trainer(std::move(made));
  trainer.fit();
  trainer.state().iteration_length = Time("2ep");
  EXPECT_EQ(trainer.fit({.duration = "1iter"}).reason, FitResult::Reason::kFinished);
  EXPECT_EQ(trainer.state().timestamp.epoch, 4);
}

TEST_F(Autoresume, FindsTheEndOfTheLastIteration) {
  for (const auto reason : {FitResult::Reason::kFinished, FitResult::Reason::kAlreadyFinished}) {
    TrainerOptions made = options();
    made.max_duration = "2iter";
    made.save_interval = "100ba";
    Trainer trainer(std::move(made));
    trainer.state().iteration_length = Time("2ep");
    EXPECT_EQ(trainer.fit().reason, reason);
    EXPECT_EQ(trainer.state().timestamp.batch, 20);
  }
}

// --- Exactness: model, optimizer, schedulers, random states and position, bit for bit ------------

// T45, T46, T48, T49, T50, T51, T58
TEST_F(Autoresume, FromEveryBatchEndsWithTheSameCheckpoint) {
  run(options("straight"));
  const Value expected = resumable_state(folder / "straight/latest-rank0.pt");
  for (std::int64_t batch = 1; batch < kAllBatches; ++batch) {
    const std::string where = "killed" + std::to_string(batch);
    run_until(options(where), batch);
    TrainerOptions again = options(where);
    again.seed = 1000 + batch;
    Trainer resumed(std::move(again));
    ASSERT_EQ(resumed.state().timestamp.batch, batch);
    resumed.fit();
    EXPECT_EQ(resumable_state(folder / (where + "/latest-rank0.pt")), expected)
        << "from batch " << batch;
  }
}

TEST_F(Autoresume, FiveTimesInARowEndsWithTheSameCheckpoint) {
  run(options("straight"));
  for (const std::int64_t last : {2, 4, 5, 8, 13}) {
    run_until(options(), last);
  }
  run(options());
  EXPECT_EQ(resumable_state(folder / "ckpt/latest-rank0.pt"),
            resumable_state(folder / "straight/latest-rank0.pt"));
}

// T47
TEST_F(Autoresume, ThroughACompressedTarEndsWithTheSameCheckpoint) {
  const auto in_tars = [this](const std::string& where) {
    TrainerOptions made = options(where);
    made.save_filename = "ep{epoch}-ba{batch}-rank{rank}.tgz";
    made.save_latest_filename = "latest-rank{rank}.tgz";
    return made;
  };
  run(in_tars("straight"));
  for (const std::int64_t last : {2, 8}) {
    run_until(in_tars("ckpt"), last);
  }
  run(in_tars("ckpt"));
  EXPECT_EQ(resumable_state(folder / "ckpt/latest-rank0.tgz"),
            resumable_state(folder / "straight/latest-rank0.tgz"));
}

// A torch::data loader draws its order from torch's global generator, as dropout does.
TEST_F(Autoresume, TorchDataLoaderWithARandomSamplerIsExactToo) {
  struct Rows : torch::data::datasets::Dataset<Rows> {
    torch::data::Example<> get(std::size_t index) override {
      const auto at = static_cast<std::int64_t>(index);
      const Batch batch = tiny_dataset(10)->get_batch({&at, 1});
      return {batch[0][0], batch[1][0]};
    }
    torch::optional<std::size_t> size() const override { return 10; }
  };
  const auto loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      Rows().map(torch::data::transforms::Stack<>()), torch::data::DataLoaderOptions(2));
  const auto with_torch_data = [&](const std::string& where) {
    TrainerOptions made = options(where);
    made.train_dataloader = from_torch_data(*loader, {.num_batches = 5, .batch_size = 2});
    return made;
  };
  run(with_torch_data("straight"));
  const Value expected = resumable_state(folder / "straight/latest-rank0.pt");
  for (const std::int64_t batch : {3, 5, 8, 14}) {
    const std::string where = "killed" + std::to_string(batch);
    run_until(with_torch_data(where), batch);
    run(with_torch_data(where));
    EXPECT_EQ(resumable_state(folder / (where + "/latest-rank0.pt")), expected)
        << "from batch " << batch;
  }
}

// --- Finding checkpoints -------------------------------------------------------------------------

TEST_F(Autoresume, FirstStartFindsNothingAndSaysSo) {
  Trainer trainer(options());
  EXPECT_EQ(trainer.state().timestamp.batch, 0);
  EXPECT_THAT(log->messages, Contains(HasSubstr("starting afresh")));
}

TEST_F(Autoresume, SaysWhichCheckpointAndPosition) {
  run_until(options(), 7);
  Trainer trainer(options());
  EXPECT_THAT(log->messages,
              Contains(AllOf(HasSubstr("ckpt/ep1-ba7-rank0.pt"), HasSubstr("epoch 1, batch 7"))));
}

// --- Between finding and loading -----------------------------------------------------------------

// Calls `act` once, at the first message that contains `part`.
class AtMessage final : public LoggerDestination {
 public:
  AtMessage(std::string part, std::function<void()> act)
      : part_(std::move(part)), act_(std::move(act)) {}
  std::string name() const override { return "AtMessage"; }
  void log_message(const std::string& message) override {
    if (act_ && message.find(part_) != std::string::npos) std::exchange(act_, nullptr)();
  }

 private:
  std::string part_;
  std::function<void()> act_;
};

TEST_F(Autoresume, WhatWasFoundIsLoadedThoughAnotherFileTakesItsName) {
  run_until(options(), 7);
  const std::string newest = folder / "ckpt/ep1-ba7-rank0.pt";
  const std::string good = read_file(newest);
  TrainerOptions swapped = options();
  swapped.loggers.push_back(std::make_shared<AtMessage>("going on from", [&] {
    write_file(folder / "other", read_file(folder / "ckpt/ep0-ba3-rank0.pt"));
    std::filesystem::rename(folder / "other", newest);
  }));
  {
    Trainer resumed(std::move(swapped));
    EXPECT_EQ(resumed.state().timestamp.batch, 7);
    write_file(newest, good);
    resumed.fit();
  }
  run(options("straight"));
  EXPECT_EQ(resumable_state(folder / "ckpt/latest-rank0.pt"),
            resumable_state(folder / "straight/latest-rank0.pt"));
}

// Overwrites the file with zeros, or cuts it off.
void spoil(const std::string& path, bool cut) {
  if (cut) return std::filesystem::resize_file(path, 0);
  const std::string zeros(read_file(path).size(), '\0');
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file << zeros << std::flush;
  ASSERT_TRUE(file.good());
}

// If the file is damaged before its tensors were read, an older checkpoint is loaded. Later damage
// does not matter.
TEST_F(Autoresume, WhatIsSpoiltWhileItIsLoadedGivesWayToAnOlderOne) {
  const auto with_clipping = [this](const std::string& where) {  // Clips nothing.
    TrainerOptions made = options(where);
    made.algorithms = {GradientClipping({.clipping_type = "norm", .clipping_threshold = 1e9})};
    made.callbacks.push_back(std::make_shared<Ballast>());
    return made;
  };
  run(with_clipping("straight"));
  for (const char* moment : {"going on from", "GradientClipping is not in the checkpoint"}) {
    const bool is_read = moment[0] == 'G';
    for (const bool cut : {false, true}) {
      const std::string where = std::string("ckpt") + moment[0] + (cut ? "c" : "w");
      TrainerOptions first = options(where);
      first.callbacks.push_back(std::make_shared<Ballast>());
      run_until(std::move(first), 7);
      const std::string newest = folder / (where + "/ep1-ba7-rank0.pt");
      TrainerOptions spoilt = with_clipping(where);
      spoilt.loggers.push_back(std::make_shared<AtMessage>(moment, [&] { spoil(newest, cut); }));
      Trainer resumed(std::move(spoilt));
      EXPECT_EQ(resumed.state().timestamp.batch, is_read ? 7 : 6) << moment << ", " << cut;
      const auto skipped =
          Contains(AllOf(HasSubstr("skipped " + newest), HasSubstr("cannot be loaded"),
                         HasSubstr("nothing was changed")));
      EXPECT_EQ(::testing::Value(log->messages, skipped), !is_read);
      resumed.fit();
      EXPECT_EQ(resumable_state(folder / (where + "/latest-rank0.pt")),
                resumable_state(folder / "straight/latest-rank0.pt"));
    }
  }
}

TEST_F(Autoresume, TheOnlyOneSpoiltWhileItIsLoadedIsAnErrorAndNoFreshStart) {
  const auto with_ballast = [this] {
    TrainerOptions made = options();
    made.callbacks.push_back(std::make_shared<Ballast>());
    return made;
  };
  run_until(with_ballast(), 1);
  TrainerOptions spoilt = with_ballast();
  spoilt.loggers.push_back(std::make_shared<AtMessage>(
      "going on from", [&] { spoil(folder / "ckpt/ep0-ba1-rank0.pt", /*cut=*/true); }));
  EXPECT_THROW(Trainer(std::move(spoilt)), StorageError);
}

TEST_F(Autoresume, NewestThatTheDiskDoesNotGiveIsPutAsideWhenItsNameComesRound) {
  run_until(options(), 7);
  const std::string newest = folder / "ckpt/ep1-ba7-rank0.pt";
  const std::string bytes = read_file(newest);
  TrainerOptions made = options();
  testing::MissingBytes disk(newest, 1000);
  made.save_object_store = local_store(disk);
  Trainer resumed(std::move(made));
  EXPECT_EQ(resumed.state().timestamp.batch, 6);
  resumed.fit();
  EXPECT_THAT(log->messages, Contains(HasSubstr("renamed " + newest + " to .unreadable: ")));
  EXPECT_EQ(read_file(newest + ".unreadable"), bytes);
  EXPECT_TRUE(verify(newest).ok());
}

// The newest checkpoint can be read again by the time its batch is saved. It is this run's, so the
// save replaces it.
TEST_F(Autoresume, NewestThatTheDiskDidNotGiveOnceIsWrittenAgain) {
  run_until(options(), 7);
  const std::string newest = folder / "ckpt/ep1-ba7-rank0.pt";
  TrainerOptions made = options();
  {
    testing::MissingBytes disk(newest, 2);
    made.save_object_store = local_store(disk);
    Trainer resumed(std::move(made));
    EXPECT_EQ(resumed.state().timestamp.batch, 6);
    resumed.fit();
    EXPECT_THAT(log->messages, Contains(HasSubstr("no run can go on from " + newest)));
    EXPECT_THAT(log->messages, Not(Contains(HasSubstr("renamed"))));
    EXPECT_TRUE(verify(newest).ok());
  }
  run(options("straight"));
  EXPECT_EQ(resumable_state(folder / "ckpt/latest-rank0.pt"),
            resumable_state(folder / "straight/latest-rank0.pt"));
}

// If a name cannot be examined, nothing can be saved under it. The error comes before training, not
// at the save.
TEST_F(Autoresume, ANameThatCannotBeLookedAtEndsTheStart) {
  run_until(options(), 7);
  const std::string newest = folder / "ckpt/ep1-ba7-rank0.pt";
  testing::MissingBytes disk(newest, 1000, /*hides_name=*/true);
  const auto start = [&] {
    TrainerOptions made = options();
    made.save_object_store = local_store(disk);
    Trainer resumed(std::move(made));
    resumed.fit();
  };
  EXPECT_THROW(start(), UnreadableError);
  EXPECT_THAT(log->messages, Not(Contains(HasSubstr("saved " + (folder / "ckpt/ep1-ba8")))));
}

TEST_F(Autoresume, DamagedNewestIsSkippedReportedAndKept) {
  run_until(options(), 7);
  const std::string newest = folder / "ckpt/ep1-ba7-rank0.pt";
  const std::string bytes = read_file(newest);
  write_file(newest, bytes.substr(0, bytes.size() / 2));
  {
    Trainer resumed(options());
    EXPECT_EQ(resumed.state().timestamp.batch, 6);
    EXPECT_THAT(log->messages, Contains(AllOf(HasSubstr("skipped"), HasSubstr(newest))));
    EXPECT_EQ(read_file(newest).size(), bytes.size() / 2);
    resumed.fit();
    EXPECT_THAT(log->messages, Contains(AllOf(HasSubstr("no run can go on from " + newest),
                                              HasSubstr("cut off"))));
    EXPECT_THAT(log->messages, Contains(AllOf(HasSubstr("renamed " + newest + " to .damaged: "),
                                              HasSubstr("cut off"))));
  }
  EXPECT_EQ(read_file(newest + ".damaged").size(), bytes.size() / 2);
  run(options("straight"));
  EXPECT_EQ(resumable_state(folder / "ckpt/latest-rank0.pt"),
            resumable_state(folder / "straight/latest-rank0.pt"));
}

TEST_F(Autoresume, NewestFileCountsWhenTheLinkLagsBehind) {
  run_until(options(), 7);
  std::filesystem::remove(folder / "ckpt/latest-rank0.pt");
  std::filesystem::create_symlink("ep0-ba2-rank0.pt", folder / "ckpt/latest-rank0.pt");
  Trainer resumed(options());
  EXPECT_THAT(log->messages, Contains(HasSubstr("ep1-ba7-rank0.pt")));
}

TEST_F(Autoresume, WhatCannotBeReadNowStopsTheStartAndTouchesNothing) {
  const auto compressed = [this] {
    TrainerOptions made = options();
    made.save_filename = "ep{epoch}-ba{batch}-rank{rank}.pt.gz";
    made.save_latest_filename = "latest-rank{rank}.pt.gz";
    return made;
  };
  run_until(compressed(), 3);
  const auto files = [this] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "ckpt")) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  const auto before = files();
  {
    const testing::EnvironmentVariable no_room("TMPDIR", (folder / "missing").c_str());
    try {
      Trainer trainer(compressed());
      FAIL() << "started at batch " << trainer.state().timestamp.batch;
    } catch (const StorageError& e) {
      EXPECT_THAT(e.what(),
                  AllOf(HasSubstr("ep0-ba3-rank0.pt.gz"), HasSubstr("put the file aside")));
    }
  }
  EXPECT_EQ(files(), before);
  EXPECT_EQ(Trainer(compressed()).state().timestamp.batch, 3);
}

TEST_F(Autoresume, AFileThatVerifiesAndIsNoTrainingStateIsPassedOver) {
  run_until(options(), 3);
  const Timestamp far = {.epoch = 2, .batch = 14};
  save(Dict{{"state", Dict{}}}, folder / "ckpt/ep2-ba14-rank0.pt",
       {.info = {.kind = "full", .run_name = "run", .timestamp = far}});
  Trainer resumed(options());
  EXPECT_EQ(resumed.state().timestamp.batch, 3);
  EXPECT_THAT(log->messages, Contains(AllOf(HasSubstr("skipped"), HasSubstr("ep2-ba14"))));
}

// T60: load options for the first start no longer apply, except strictness.
TEST_F(Autoresume, LoadOptionsOfTheFirstStartAreForgotten) {
  TrainerOptions made = options();
  made.load_path = folder / "pretrained.pt";
  made.load_weights_only = true;
  made.load_ignore_keys = {"*"};
  {
    Trainer pretrained(tiny_options({.dropout = 0.3, .seed = 8}));
    pretrained.save_checkpoint(folder / "pretrained.pt", /*weights_only=*/true);
  }
  made.load_ignore_keys = {};
  run_until(made, 4);
  made.model = options().model;
  made.load_ignore_keys = {"*"};
  Trainer resumed(std::move(made));
  EXPECT_EQ(resumed.state().timestamp.batch, 4);
  EXPECT_EQ(state_dict(resumed.state().model->module()),
            load(folder / "ckpt/ep0-ba4-rank0.pt").at("state").at("model"));
}

// T61
TEST_F(Autoresume, FolderAndLinkAreThoseOfTheSaverAmongTheCallbacks) {
  for (const bool with_save_folder : {false, true}) {
    TrainerOptions made = options();
    if (!with_save_folder) made.save_folder = std::nullopt;
    made.callbacks = CheckpointSaver({.folder = folder / "mine",
                                      .latest_filename = "links/newest-rank{rank}",
                                      .save_interval = "1ba",
                                      .overwrite = true});
    run_until(made, 3);
    made.model = options().model;
    Trainer resumed(std::move(made));
    EXPECT_EQ(resumed.state().timestamp.batch, 3);
    std::filesystem::remove_all(folder / "mine");
  }
}

// T62, T64
TEST_F(Autoresume, NeedsRunNameFolderAndLink) {
  const auto refusal = [](TrainerOptions made) -> std::string {
    try {
      Trainer trainer(std::move(made));
    } catch (const UsageError& e) {
      return e.what();
    }
    return "no error";
  };
  TrainerOptions made = options();
  made.run_name = std::nullopt;
  EXPECT_THAT(refusal(made), HasSubstr("run_name"));
  made = options();
  made.save_folder = std::nullopt;
  EXPECT_THAT(refusal(made), HasSubstr("save_folder"));
  made = options();
  made.save_latest_filename = std::nullopt;
  EXPECT_THAT(refusal(made), HasSubstr("latest"));
  made = options();
  made.save_folder = std::nullopt;
  made.callbacks = CheckpointSaver({.folder = folder / "mine", .latest_filename = std::nullopt});
  EXPECT_THAT(refusal(made), HasSubstr("latest"));
}

// --- Checkpoints that do not fit -----------------------------------------------------------------

TEST_F(Autoresume, AnotherModelOrOptimizerIsRefusedAndTheFilesStay) {
  run_until(options(), 3);
  const std::string bytes = read_file(folder / "ckpt/ep0-ba3-rank0.pt");
  TrainerOptions made = options();
  made.model = classifier(torch::nn::Linear(7, 3));
  made.optimizers = SGD({.lr = 0.1});
  try {
    Trainer trainer(std::move(made));
    FAIL() << "no error";
  } catch (const MismatchError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("missing names"), HasSubstr("unexpected names"),
                                HasSubstr("AdamW"), HasSubstr("nothing was changed")));
  }
  EXPECT_EQ(read_file(folder / "ckpt/ep0-ba3-rank0.pt"), bytes);
}

TEST_F(Autoresume, FinishedRunSaysSoAndSucceeds) {
  const auto saving_epochs = [&] {
    TrainerOptions made = options();
    made.save_interval = "1ep";
    return made;
  };
  run(saving_epochs());
  Trainer again(saving_epochs());
  const FitResult result = again.fit();
  EXPECT_EQ(result.reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(log->messages, Contains(HasSubstr("already finished")));
}

// The last batch's checkpoint was saved before its epoch ended (Composer's order of events). The
// next start ends the epoch and trains nothing.
TEST_F(Autoresume, RunThatOnlyHasToEndItsLastEpochIsFinished) {
  run(options());
  Trainer again(options());
  EXPECT_EQ(again.state().timestamp.epoch, 2);
  const at::Tensor before = testing::weights_of(*again.state().model);
  EXPECT_EQ(again.fit().reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_THAT(log->messages, Contains(HasSubstr("already finished")));
  EXPECT_EQ(again.state().timestamp.epoch, 3);
  EXPECT_TRUE(at::equal(testing::weights_of(*again.state().model), before));
  again.close();
  Trainer last(options());
  EXPECT_EQ(last.fit().reason, FitResult::Reason::kAlreadyFinished);
}

TEST_F(Autoresume, RotationGoesOnOverRestarts) {
  const auto keeping_two = [&] {
    TrainerOptions made = options();
    made.save_num_checkpoints_to_keep = 2;
    return made;
  };
  run_until(keeping_two(), 4);
  run_until(keeping_two(), 9);
  Trainer last(keeping_two());
  last.fit();
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "ckpt")) {
    files += entry.is_symlink() ? 0 : 1;
  }
  EXPECT_EQ(files, 2U);
  EXPECT_EQ(last.saved_checkpoints().size(), 2U);
}

}  // namespace
}  // namespace cairn
