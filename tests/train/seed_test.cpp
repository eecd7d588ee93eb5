// TrainerOptions::seed and the order of samples. `seed` seeds everything that the user did not
// seed. A resumed run keeps its original order.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/dist/sampler.h"
#include "cairn/train/data.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::SizeIs;
using testing::tiny_options;

using SampleOrder = std::vector<std::int64_t>;

// tiny_dataset() that also notes the requested samples. Without workers, they are noted in order.
class NotingDataset final : public Dataset {
 public:
  explicit NotingDataset(std::int64_t samples) : data_(testing::tiny_dataset(samples)) {}
  std::int64_t size() const override { return data_->size(); }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    noted_.insert(noted_.end(), indices.begin(), indices.end());
    return data_->get_batch(indices);
  }
  SampleOrder take() const { return std::exchange(noted_, {}); }

 private:
  std::shared_ptr<Dataset> data_;
  mutable SampleOrder noted_;
};

enum class LoaderKind { kPlain, kSampler };

class ShuffleSeed : public ::testing::TestWithParam<LoaderKind> {
 protected:
  DataLoader loader(std::optional<std::int64_t> seed = std::nullopt) const {
    DataLoaderOptions options{.batch_size = 2};
    if (GetParam() == LoaderKind::kPlain) {
      options.shuffle = true;
      options.seed = seed;
    } else {
      options.sampler = DistributedSamplerOptions{.num_replicas = 1, .rank = 0, .seed = seed};
    }
    return DataLoader(data_, options);
  }

  // A run of two epochs of 5 batches.
  TrainerOptions options(std::int64_t seed) const {
    TrainerOptions made = tiny_options();
    made.train_dataloader = loader();
    made.run_name = "run";
    made.seed = seed;
    return made;
  }

  SampleOrder order_of(TrainerOptions made) const {
    data_->take();
    Trainer trainer(std::move(made));
    trainer.fit();
    return data_->take();
  }

  // Saves a run with `seed` after `batches` batches, and returns the samples that it trains later.
  SampleOrder rest_of(std::int64_t seed, std::int64_t batches, const std::string& path) const {
    TrainerOptions made = options(seed);
    made.callbacks = testing::CallAt(Event::kBatchEnd, [&](State& state) {
      if (state.timestamp.batch != batches) return;
      save_checkpoint(state, path);
      data_->take();
    });
    Trainer trainer(std::move(made));
    trainer.fit();
    return data_->take();
  }

  // Changes the checkpoint to the form of older versions of cairn. The loaders of these versions
  // had seed 0 unless the user gave a seed.
  void make_old(const std::string& path, std::int64_t seed) const {
    Value checkpoint = load(path);
    Value& train =
        checkpoint.mutable_dict()["state"].mutable_dict()["dataset_state"].mutable_dict()["train"];
    Dict& own = train.mutable_dict()["cairn"].mutable_dict();
    own.erase("seed");
    own["loader"].mutable_dict()["seed"] = seed;
    save(checkpoint, path, {.overwrite = true});
  }

  std::shared_ptr<NotingDataset> data_ = std::make_shared<NotingDataset>(10);
  testing::TempFolder folder_;
};

TEST_P(ShuffleSeed, TwoSeedsGiveTwoOrdersAndOneGivesOne) {
  const SampleOrder first = order_of(options(1));
  EXPECT_THAT(first, SizeIs(20));
  EXPECT_EQ(first, order_of(options(1)));
  EXPECT_NE(first, order_of(options(2)));
}

TEST_P(ShuffleSeed, IsThatOfALoaderThatIsGivenIt) {
  TrainerOptions made = options(1);
  made.train_dataloader = loader(7);
  const SampleOrder given = order_of(std::move(made));
  EXPECT_EQ(order_of(options(7)), given);
  made = options(2);
  made.train_dataloader = loader(7);  // Stays: the user seeded it.
  EXPECT_EQ(order_of(std::move(made)), given);
  made = options(2);
  made.train_dataloader = loader(0);
  EXPECT_NE(order_of(std::move(made)), order_of(options(2)));
}

TEST_P(ShuffleSeed, ReachesEvaluationsAndPredictions) {
  const auto seen = [&](std::int64_t seed) {
    TrainerOptions made = options(seed);
    made.train_dataloader = testing::tiny_loader(10);
    made.eval_dataloader = loader();
    Trainer trainer(std::move(made));
    data_->take();
    trainer.eval();
    SampleOrder order = data_->take();
    trainer.predict(loader());
    EXPECT_EQ(data_->take(), order);
    return order;
  };
  EXPECT_EQ(seen(1), seen(1));
  EXPECT_NE(seen(1), seen(2));
}

TEST_P(ShuffleSeed, OfTheFirstStartHoldsForTheWholeRun) {
  for (const std::int64_t batches : {3, 5, 7}) {
    const std::string path = folder_ / ("after-" + std::to_string(batches) + ".pt");
    const SampleOrder rest = rest_of(1, batches, path);
    TrainerOptions made = options(99);
    made.load_path = path;
    EXPECT_EQ(order_of(std::move(made)), rest) << batches;
  }
}

TEST_P(ShuffleSeed, OfARunOfAnOlderCairnStays0) {
  for (const std::int64_t batches : {3, 5, 7}) {
    const std::string path = folder_ / ("after-" + std::to_string(batches) + ".pt");
    rest_of(1, batches, path);
    make_old(path, 0);
    TrainerOptions made = options(1);
    made.train_dataloader = loader(0);
    made.load_path = path;
    // Continues with the seed that older versions used.
    const SampleOrder rest = order_of(std::move(made));
    made = options(1);
    made.load_path = path;
    EXPECT_EQ(order_of(std::move(made)), rest) << batches;
    // The order is the same after one more stop.
    made = options(1);
    made.load_path = path;
    made.max_duration = Time::batches(batches + 1);
    Trainer between(std::move(made));
    between.fit();
    const std::string later = between.save_checkpoint(folder_ / "later.pt");
    made = options(1);
    made.load_path = later;
    EXPECT_EQ(order_of(std::move(made)), SampleOrder(rest.begin() + 2, rest.end())) << batches;
    std::filesystem::remove_all(later);
  }
}

TEST_P(ShuffleSeed, OfACheckpointFromBeforeTheFirstBatchIsTheRuns) {
  const SampleOrder whole = order_of(options(1));
  Trainer trainer(options(1));
  const std::string path = trainer.save_checkpoint(folder_ / "start.pt");
  TrainerOptions made = options(2);
  made.load_path = path;
  EXPECT_EQ(order_of(std::move(made)), whole);
}

TEST_P(ShuffleSeed, OfWeightsThatWereLoadedIsTheNewRuns) {
  const std::string path = folder_ / "weights.pt";
  rest_of(1, 3, path);
  TrainerOptions made = options(2);
  made.load_path = path;
  made.load_weights_only = true;
  EXPECT_EQ(order_of(std::move(made)), order_of(options(2)));
}

INSTANTIATE_TEST_SUITE_P(Loaders, ShuffleSeed,
                         ::testing::Values(LoaderKind::kPlain, LoaderKind::kSampler),
                         [](const auto& tested) {
                           return std::string(tested.param == LoaderKind::kPlain ? "Plain"
                                                                                 : "Sampler");
                         });

}  // namespace
}  // namespace cairn
