// Resuming. A run that was saved at any batch and continued in a new process ends with the same
// bits as a run without a stop. A "process" here is a new Trainer with a new model and other seeds.

#include <gmock/gmock.h>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "testing/lion.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::TempFolder;
using testing::tiny_dataset;
using testing::tiny_loader;
using testing::tiny_options;

constexpr std::int64_t kBatches = 15;  // 3 epochs of 5.

struct Setup {
  const char* name;
  std::function<void(TrainerOptions&)> change;
};

void PrintTo(const Setup& setup, std::ostream* out) { *out << setup.name; }  // NOLINT: gtest's name

// A loader whose order comes from torch's global generator, like Python's DataLoader(shuffle=True).
std::shared_ptr<DataLoaderBase> global_loader(std::int64_t samples, std::uint64_t data_seed = 5) {
  const auto data = tiny_dataset(samples, data_seed);
  return iterator_loader(
      [data, samples](std::int64_t) -> BatchIterator {
        const at::Tensor order = at::randperm(samples, at::kLong);
        auto at = std::make_shared<std::int64_t>(0);
        return [data, order, samples, at]() -> std::optional<Batch> {
          if (*at >= samples) return std::nullopt;
          const auto* first = order.data_ptr<std::int64_t>() + *at;
          *at += 2;
          return data->get_batch({first, first + 2});
        };
      },
      {.num_batches = samples / 2, .batch_size = 2});
}

// Adds other noise to a sample's features in every epoch.
class Noisy final : public Dataset {
 public:
  std::int64_t size() const override { return data_->size(); }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    return data_->get_batch(indices);
  }
  Batch get_batch_in_epoch(std::span<const std::int64_t> indices,
                           std::int64_t epoch) const override {
    Batch batch = get_batch(indices);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      auto generator = at::detail::createCPUGenerator(sample_seed(3, epoch, indices[i]));
      batch[0][static_cast<std::int64_t>(i)].add_(at::randn({4}, generator, at::kDouble));
    }
    return batch;
  }

 private:
  std::shared_ptr<Dataset> data_ = tiny_dataset(10);
};

// As Noisy, sample by sample.
class NoisySamples final : public SampleDataset {
 public:
  std::int64_t size() const override { return data_->size(); }
  Batch get(std::int64_t index, std::int64_t epoch) const override {
    auto generator = at::detail::createCPUGenerator(sample_seed(3, epoch, index));
    const Batch sample = data_->get_batch({&index, 1});
    return {sample[0][0] + at::randn({4}, generator, at::kDouble), sample[1][0]};
  }

 private:
  std::shared_ptr<Dataset> data_ = tiny_dataset(10);
};

const Setup kSetups[] = {
    {"own_loader", [](TrainerOptions&) {}},
    {"global_rng_loader", [](TrainerOptions& o) { o.train_dataloader = global_loader(10); }},
    {"prefetching",
     [](TrainerOptions& o) {
       o.train_dataloader = tiny_loader(10, {.batch_size = 2, .shuffle = true, .num_workers = 2});
     }},
    {"augmentation",
     [](TrainerOptions& o) {
       o.train_dataloader = DataLoader(std::make_shared<Noisy>(),
                                       {.batch_size = 2, .shuffle = true, .num_workers = 2});
     }},
    {"augmented_samples",
     [](TrainerOptions& o) {
       o.train_dataloader = DataLoader(std::make_shared<NoisySamples>(),
                                       {.batch_size = 2, .shuffle = true, .num_workers = 2});
     }},
    {"shuffled_evaluation",
     [](TrainerOptions& o) {
       o.train_dataloader = global_loader(10);
       o.eval_dataloader = Evaluator{.dataloader = global_loader(4, 6)};
       o.eval_interval = "2ba";
     }},
    {"own_optimizer",
     [](TrainerOptions& o) {
       o.optimizers = RecipeOf<testing::Lion>({.lr = 0.01, .weight_decay = 0.1});
     }},
    {"lbfgs",
     [](TrainerOptions& o) {
       o.optimizers = LBFGS({.lr = 0.1, .max_iter = 3, .history_size = 3});
     }},
    {"nadam", [](TrainerOptions& o) { o.optimizers = NAdam({.lr = 0.01}); }},
    {"asgd", [](TrainerOptions& o) { o.optimizers = ASGD({.lr = 0.1, .t0 = 4}); }},
    {"adafactor", [](TrainerOptions& o) { o.optimizers = Adafactor(); }},
    {"evaluation_at_epoch_end",
     [](TrainerOptions& o) {
       o.train_dataloader = global_loader(10);
       o.eval_dataloader = Evaluator{.dataloader = global_loader(4, 6)};
     }},
};

class Resume : public ::testing::TestWithParam<Setup> {
 protected:
  TrainerOptions options(std::int64_t seed) {
    TrainerOptions options = tiny_options({.dropout = 0.3});
    options.train_dataloader = tiny_loader(10, {.batch_size = 2, .shuffle = true});
    options.max_duration = "3ep";
    options.optimizers = AdamW({.lr = 0.01});
    options.seed = seed;
    GetParam().change(options);
    return options;
  }

  // Saves to "<folder>/<batch>.pt" at batch_checkpoint of every batch, and ends after `last`.
  at::Tensor run(TrainerOptions options, std::int64_t last = kBatches) {
    Trainer* running = nullptr;
    options.callbacks.push_back(CallAt(Event::kBatchCheckpoint, [&](State& state) {
      running->save_checkpoint(folder_ / (std::to_string(state.timestamp.batch) + ".pt"));
      if (state.timestamp.batch == last) throw CancelledError("killed");
    }));
    Trainer trainer(std::move(options));
    running = &trainer;
    try {
      trainer.fit();
    } catch (const CancelledError&) {
    }
    return testing::weights_of(*trainer.state().model);
  }

  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Loaders, Resume, ::testing::ValuesIn(kSetups),
                         [](const auto& each) { return std::string(each.param.name); });

// T46, T48, T49, T50: at the end of an epoch, inside one, at its last batch, and in a later one.
TEST_P(Resume, FromAnyBatchEndsWithTheSameBits) {
  const at::Tensor expected = run(options(17), kBatches + 1);
  for (std::int64_t batch = 1; batch < kBatches; ++batch) {
    TrainerOptions resumed = options(1000 + batch);
    resumed.load_path = folder_ / (std::to_string(batch) + ".pt");
    Trainer trainer(std::move(resumed));
    ASSERT_EQ(trainer.state().timestamp.batch, batch);
    trainer.fit();
    EXPECT_EQ(trainer.state().timestamp.batch, kBatches);
    EXPECT_EQ(trainer.state().timestamp.epoch, 3);
    EXPECT_TRUE(at::equal(testing::weights_of(*trainer.state().model), expected))
        << "resumed after batch " << batch;
  }
}

TEST_P(Resume, FiveTimesInARowEndsWithTheSameBits) {
  const at::Tensor expected = run(options(17), kBatches + 1);
  run(options(17), 2);
  std::int64_t last = 2;
  at::Tensor weights;
  for (const std::int64_t next : {4, 5, 8, 13, static_cast<int>(kBatches) + 1}) {
    TrainerOptions resumed = options(2000 + next);
    resumed.load_path = folder_ / (std::to_string(last) + ".pt");
    weights = run(std::move(resumed), next);
    last = next;
  }
  EXPECT_TRUE(at::equal(weights, expected));
}

TEST(SecondFit, InsideAnEpochGoesOnExactly) {
  const auto options = [] {
    TrainerOptions made = tiny_options({.dropout = 0.3});
    made.train_dataloader = global_loader(10);
    made.max_duration = "7ba";
    return made;
  };
  Trainer parts(options());
  parts.fit();
  parts.fit({.duration = "8ba"});
  TrainerOptions straight = options();
  straight.max_duration = "15ba";
  Trainer whole(std::move(straight));
  whole.fit();
  EXPECT_EQ(parts.state().timestamp.batch, whole.state().timestamp.batch);
  EXPECT_TRUE(at::equal(testing::weights_of(*parts.state().model),
                        testing::weights_of(*whole.state().model)));
}

// --- Edge cases ----------------------------------------------------------------------------------

struct ResumeEdge : ::testing::Test {
  // A checkpoint after `batches` batches, at 5 batches per epoch.
  std::string checkpoint_after(std::int64_t batches, DataSpecOrLoader data) {
    TrainerOptions options = tiny_options();
    options.train_dataloader = std::move(data);
    options.max_duration = Time::batches(batches);
    Trainer trainer(std::move(options));
    trainer.fit();
    return trainer.save_checkpoint(folder / "saved.pt");
  }
  TempFolder folder;
};

TEST_F(ResumeEdge, AtTheLastBatchOfAnEpochEndsItWithoutTrainingOrWarning) {
  auto log = std::make_shared<LogRecorder>();
  auto events = std::make_shared<testing::EventRecorder>();
  // Stopped by an exception, so the epoch did not end.
  TrainerOptions first = tiny_options();
  first.callbacks = {CallAt(Event::kBatchCheckpoint, [&](State& state) {
    if (state.timestamp.batch == 5) throw CancelledError("killed");
  })};
  Trainer killed(std::move(first));
  EXPECT_THROW(killed.fit(), CancelledError);
  const std::string path = killed.save_checkpoint(folder / "last-of-epoch.pt");
  TrainerOptions options = tiny_options();
  options.load_path = path;
  options.max_duration = "1ep";
  options.loggers = {log};
  options.callbacks = {events};
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.state().timestamp.batch_in_epoch, 5);
  trainer.fit();
  EXPECT_EQ(trainer.state().timestamp.epoch, 1);
  EXPECT_EQ(trainer.state().timestamp.batch, 5);
  EXPECT_EQ(events->count("batch_start"), 0);
  EXPECT_EQ(events->count("epoch_start"), 0);
  EXPECT_EQ(events->count("epoch_end"), 1);
  // The first line may warn about a slow BLAS.
  const auto is_other_warning =
      ::testing::AllOf(HasSubstr("warning"), ::testing::Not(HasSubstr("BLAS")));
  EXPECT_THAT(log->messages, ::testing::Not(::testing::Contains(is_other_warning)));
}

TEST_F(ResumeEdge, InsideAnEpochStartsNeitherEpochNorIteration) {
  auto events = std::make_shared<testing::EventRecorder>();
  TrainerOptions options = tiny_options();
  options.load_path = checkpoint_after(3, tiny_loader(10));
  options.callbacks = {events};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_EQ(events->count("iteration_start"), 0);
  EXPECT_EQ(events->count("epoch_start"), 1) << "of the second epoch";
  EXPECT_EQ(events->count("batch_start"), 7);
}

// A loader that fails once, when its first batch is requested.
std::shared_ptr<DataLoaderBase> failing_once() {
  const auto inner = global_loader(10);
  return iterator_loader(
      [inner, fails = true](std::int64_t epoch) mutable -> BatchIterator {
        inner->start_epoch(epoch, 0);
        if (std::exchange(fails, false)) throw StorageError("the network is down", 0);
        return [inner] { return inner->next(); };
      },
      {.num_batches = 5, .batch_size = 2});
}

TEST_F(ResumeEdge, AFitThatFailsBeforeItsFirstBatchCostsNoExactness) {
  for (const std::int64_t batches : {3, 5}) {
    const auto options = [&, path = checkpoint_after(batches, global_loader(10))] {
      TrainerOptions made = tiny_options({.dropout = 0.3});
      made.load_path = path;
      made.train_dataloader = global_loader(10);
      return made;
    };
    Trainer straight(options());
    straight.fit();
    TrainerOptions fails = options();
    fails.train_dataloader = failing_once();
    Trainer retried(std::move(fails));
    EXPECT_THROW(retried.fit(), StorageError);
    torch::manual_seed(99);  // As if random numbers were drawn meanwhile.
    retried.fit();
    EXPECT_TRUE(at::equal(testing::weights_of(*retried.state().model),
                          testing::weights_of(*straight.state().model)))
        << batches;
  }
}

// Each form of checkpoint holds the generators that wait to be restored.
TEST_F(ResumeEdge, ASaveBeforeTheFirstFitCostsNoExactness) {
  const std::vector<std::pair<std::string, std::function<void(TrainerOptions&)>>> forms = {
      {"file", [](TrainerOptions&) {}},
      {"folder",
       [](TrainerOptions& made) {
         made.parallelism_config =
             ParallelismConfig{.fsdp = FSDPConfig{.state_dict_type = "sharded"}};
       }},
      {"tar",
       [](TrainerOptions& made) {
         made.deepspeed_config = Dict{{"zero_optimization", Dict{{"stage", 0}}}};
       }},
  };
  for (const auto& form : forms) {
    const auto going_on_from = [&](const std::string& path) {
      TrainerOptions made = tiny_options({.dropout = 0.3});
      form.second(made);
      if (!path.empty()) made.load_path = path;
      return std::make_unique<Trainer>(std::move(made));
    };
    const auto save = [&](Trainer& trainer, const std::string& name) {
      std::string path = trainer.save_checkpoint(folder / (name + "/rank{rank}"));
      const std::size_t rank = path.rfind("rank0.tar");
      return rank == std::string::npos ? path : path.replace(rank, 5, "rank{rank}");
    };
    const auto weights_from = [&](const std::string& path) {
      const auto trainer = going_on_from(path);
      trainer->fit();
      return testing::weights_of(*trainer->state().model);
    };
    const auto first = going_on_from("");
    first->fit({.duration = "3ba"});
    const std::string path = save(*first, form.first);
    const auto idle = going_on_from(path);
    torch::manual_seed(99);  // whatever happens meanwhile
    const std::string again = save(*idle, form.first + " again");
    EXPECT_TRUE(at::equal(weights_from(again), weights_from(path))) << form.first;
  }
}

TEST_F(ResumeEdge, AnotherLoaderInsideAnEpochIsRefusedByEveryFit) {
  TrainerOptions options = tiny_options();
  options.load_path = checkpoint_after(3, tiny_loader(10));
  options.train_dataloader = tiny_loader(10, {.batch_size = 1});
  Trainer trainer(std::move(options));
  EXPECT_THROW(trainer.fit(), MismatchError);
  EXPECT_THROW(trainer.fit(), MismatchError);
  EXPECT_EQ(trainer.state().timestamp.batch, 3);
  EXPECT_NO_THROW(trainer.fit({.train_dataloader = tiny_loader(10)}));
}

TEST_F(ResumeEdge, WithAnotherLoaderInsideAnEpochIsRefused) {
  TrainerOptions options = tiny_options();
  options.load_path = checkpoint_after(3, tiny_loader(10));
  options.train_dataloader = tiny_loader(10, {.batch_size = 1});
  Trainer trainer(options);
  try {
    trainer.fit();
    FAIL() << "no error";
  } catch (const MismatchError& error) {
    EXPECT_THAT(error.what(), HasSubstr("batch_size: 2 in the checkpoint, 1 here"));
    EXPECT_THAT(error.what(), HasSubstr("load_ignore_keys"));
  }
  options.load_ignore_keys = {"state/dataset_state*"};
  options.model = tiny_options().model;
  Trainer willing(std::move(options));
  EXPECT_NO_THROW(willing.fit());
}

TEST_F(ResumeEdge, WithAnotherLoaderBetweenEpochsIsAWarning) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions options = tiny_options();
  options.load_path = checkpoint_after(5, tiny_loader(10));
  options.train_dataloader = tiny_loader(10, {.batch_size = 1});
  options.loggers = {log};
  Trainer trainer(std::move(options));
  EXPECT_NO_THROW(trainer.fit());
  EXPECT_EQ(trainer.state().timestamp.batch, 15);
  EXPECT_THAT(log->messages, ::testing::Contains(HasSubstr("batch_size")));
}

// T52: the order depends on the number of finished epochs.
TEST_F(ResumeEdge, TheOrderIsThatOfTheEpoch) {
  std::vector<std::int64_t> epochs;
  const auto noting_loader = [&] {
    return iterator_loader(
        [&epochs](std::int64_t epoch) -> BatchIterator {
          epochs.push_back(epoch);
          auto left = std::make_shared<int>(5);
          return [left]() -> std::optional<Batch> {
            if ((*left)-- == 0) return std::nullopt;
            return Batch{at::ones({2, 4}, at::kDouble), at::zeros({2}, at::kLong)};
          };
        },
        {.num_batches = 5, .batch_size = 2, .uses_global_rng = false});
  };
  TrainerOptions options = tiny_options();
  options.load_path = checkpoint_after(8, noting_loader());
  EXPECT_EQ(epochs, (std::vector<std::int64_t>{0, 1}));
  epochs.clear();
  options.train_dataloader = noting_loader();
  options.max_duration = "3ep";
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_EQ(epochs, (std::vector<std::int64_t>{1, 2}));
}

// T54: without spinning, the epoch begins anew, so more batches are trained.
TEST_F(ResumeEdge, WithoutSpinningTheEpochBeginsAnew) {
  const std::string path = checkpoint_after(3, tiny_loader(10));
  const auto batches_with = [&](bool spin) {
    TrainerOptions options = tiny_options();
    options.load_path = path;
    options.spin_dataloaders = spin;
    Trainer trainer(std::move(options));
    trainer.fit();
    return trainer.state().timestamp.batch;
  };
  EXPECT_EQ(batches_with(true), 10);
  EXPECT_EQ(batches_with(false), 13);
}

TEST_F(ResumeEdge, ResetTimeStartsFromZeroWithTheLoadedWeights) {
  TrainerOptions options = tiny_options();
  options.load_path = checkpoint_after(3, tiny_loader(10));
  Trainer trainer(std::move(options));
  trainer.fit({.duration = "2ba", .reset_time = true});
  EXPECT_EQ(trainer.state().timestamp.batch, 2);
}

TEST_F(ResumeEdge, AFinishedRunIsAnErrorUnlessItWasAutoresumed) {
  TrainerOptions options = tiny_options();
  options.run_name = "r";
  options.save_folder = folder / "ckpt";
  options.max_duration = "1ep";
  options.autoresume = true;
  {
    Trainer first(options);
    EXPECT_EQ(first.fit().reason, FitResult::Reason::kFinished);
  }
  options.model = tiny_options().model;
  Trainer again(options);
  const FitResult result = again.fit();
  EXPECT_EQ(result.reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_EQ(result.exit_code, 0);
  options.autoresume = false;
  options.load_path = folder / "ckpt/latest-rank0.pt";
  options.model = tiny_options().model;
  Trainer loaded(std::move(options));
  EXPECT_THROW(loaded.fit(), UsageError);
}

// T33
TEST_F(ResumeEdge, KeepsItsOwnRunName) {
  TrainerOptions options = tiny_options();
  options.load_path = checkpoint_after(3, tiny_loader(10));
  options.run_name = "second";
  Trainer trainer(std::move(options));
  EXPECT_EQ(trainer.state().run_name, "second");
}

}  // namespace
}  // namespace cairn
