// keep_best: the best checkpoints by a metric stay beside the newest ones, also after a restart.

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoints.h"
#include "cairn/error.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/train/trainer.h"

#include "saving/places/saved_checkpoints.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "testing/message_of.h"
#include "testing/sim_file_system.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Pair;
using testing::SimFileSystem;
using testing::SimulatedCrash;
using testing::TempFolder;
using testing::tiny_loader;
using testing::tiny_options;

// --- The list of a saver -------------------------------------------------------------------------

Timestamp at_batch(std::int64_t batch) {
  Timestamp timestamp;
  timestamp.batch = batch;
  return timestamp;
}

SavedCheckpoints list(const KeepBest& best, const std::vector<double>& metrics) {
  SavedCheckpoints made(best);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const std::string path(1, static_cast<char>('a' + i));
    made.begin(path, at_batch(static_cast<std::int64_t>(i)), metrics[i]);
    made.finish(path);
  }
  return made;
}

const KeepBest kTwo = {.metric = "eval/Acc", .count = 2, .mode = BestMode::kMax};

TEST(BestSavedCheckpoints, StayWhenTheyAreOld) {
  EXPECT_THAT(list(kTwo, {.1, .9, .2, .8, .3}).superfluous(1), ElementsAre("a", "c"));
  EXPECT_THAT(list(kTwo, {.1, .9, .2, .8, .3}).best(), ElementsAre(Pair("b", .9), Pair("d", .8)));
  // The newest is one of the best: no third one stays.
  EXPECT_THAT(list(kTwo, {.1, .9, .2, .3, .8}).superfluous(1), ElementsAre("a", "c", "d"));
  KeepBest low = kTwo;
  low.mode = BestMode::kMin;
  EXPECT_THAT(list(low, {.1, .9, .2, .8, .3}).superfluous(1), ElementsAre("b", "d"));
}

TEST(BestSavedCheckpoints, OfEqualValuesTheLaterOneIsBetterAndNaNHasNoRank) {
  EXPECT_THAT(list(kTwo, {.5, .5, .5, .1}).superfluous(1), ElementsAre("a"));
  EXPECT_THAT(list(kTwo, {NAN, .5, NAN, .1}).superfluous(1), ElementsAre("a", "c"));
  SavedCheckpoints unranked(kTwo);
  for (const char* path : {"a", "b"}) {
    unranked.begin(path, at_batch(1));
    unranked.finish(path);
  }
  EXPECT_THAT(unranked.superfluous(1), ElementsAre("a"));
  EXPECT_THAT(unranked.best(), IsEmpty());
}

// "c" is better than "a", and may still fail when "d" removes others.
TEST(BestSavedCheckpoints, APendingSaveTakesNoPlace) {
  SavedCheckpoints some = list({.metric = "eval/Acc", .count = 1, .mode = BestMode::kMax},  //
                               {.5, .1});
  some.begin("c", at_batch(3), .9);
  EXPECT_THAT(some.superfluous(1), ElementsAre("a", "b")) << "removed once c is durable";
  some.begin("d", at_batch(4), .2);
  EXPECT_THAT(some.superfluous(1), ElementsAre("b"));
  some.drop_unfinished();
  EXPECT_THAT(some.best(), ElementsAre(Pair("a", .5)));
}

TEST(BestSavedCheckpoints, AreKnownFromTheStateOfTheSameMetric) {
  const SavedCheckpoints some = list(kTwo, {.1, .9, .2});
  const auto best_after_load = [&](std::optional<KeepBest> best, const Value& state) {
    SavedCheckpoints loaded(std::move(best));
    loaded.load_state_dict(state);
    loaded.adopt([](const std::string& path, const Timestamp&) { return std::optional(path); },
                 [](const std::string&) { return true; });
    return loaded.best();
  };
  EXPECT_THAT(best_after_load(kTwo, some.state_dict()), ElementsAre(Pair("b", .9), Pair("c", .2)));
  EXPECT_THAT(best_after_load({{.metric = "eval/F1", .mode = BestMode::kMax}}, some.state_dict()),
              IsEmpty());
  EXPECT_THAT(best_after_load(std::nullopt, some.state_dict()), IsEmpty());
  Dict wrong = some.state_dict().as_dict();
  wrong.set("keep_best", Dict{{"metric", "eval/Acc"}});
  EXPECT_THROW(best_after_load(kTwo, wrong), MismatchError);
  // Composer's form is as before.
  EXPECT_EQ(SavedCheckpoints().state_dict().as_dict().size(), 1U);
}

// --- In a run ------------------------------------------------------------------------------------

struct KeepBestRun : ::testing::Test {
  // 5 batches in an epoch. The evaluations give `values`, by batch.
  TrainerOptions options(const std::string& duration) {
    TrainerOptions made = tiny_options({.metrics = true});
    made.max_duration = duration;
    made.run_name = "run";
    made.save_folder = folder / "ckpt";
    made.save_interval = "1ba";
    made.save_num_checkpoints_to_keep = 1;
    made.save_async = false;  // Otherwise a save under way keeps one more.
    made.save_keep_best = {.metric = "eval/MeanOutput", .count = 2, .mode = "max"};
    made.eval_dataloader = tiny_loader(2);
    made.eval_interval = "1ba";
    made.autoresume = true;
    made.seed = 3;
    made.callbacks.push_back(CallAt(Event::kEvalEnd, [this](State& state) {
      const auto value = values.find(state.timestamp.batch);
      if (value == values.end()) return;
      state.metric_values.set("eval", Dict{{"MeanOutput", value->second}});
    }));
    return made;
  }
  // The batches of the checkpoints in the folder.
  std::vector<std::int64_t> kept() const {
    std::vector<std::int64_t> batches;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "ckpt")) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("latest")) batches.push_back(std::stoll(name.substr(6)));
    }
    std::ranges::sort(batches);
    return batches;
  }

  TempFolder folder;
  std::map<std::int64_t, double> values = {{1, .1}, {2, .9}, {3, .3}, {4, .5}, {5, .2}, {6, .4}};
};

TEST_F(KeepBestRun, TheBestStayBesideTheNewest) {
  Trainer trainer(options("5ba"));
  trainer.fit();
  const auto best = trainer.best_checkpoints();
  trainer.close();
  EXPECT_THAT(kept(), ElementsAre(2, 4, 5));
  EXPECT_THAT(best, ElementsAre(Pair(folder / "ckpt/ep0-ba2-rank0.pt", .9),
                                Pair(folder / "ckpt/ep0-ba4-rank0.pt", .5)));
}

TEST_F(KeepBestRun, ARestartKnowsTheMetricsOfBefore) {
  Trainer(options("3ba")).fit();
  EXPECT_THAT(kept(), ElementsAre(2, 3));
  values.erase(2);
  Trainer again(options("6ba"));
  again.fit();
  EXPECT_EQ(again.best_checkpoints().front().second, .9);
  again.close();
  EXPECT_THAT(kept(), ElementsAre(2, 4, 6));
}

// A run that is found finished removes what its last save would have removed, and no more.
TEST_F(KeepBestRun, AFinishedRunKeepsThem) {
  Trainer(options("5ba")).fit();
  EXPECT_EQ(Trainer(options("5ba")).fit().reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_THAT(kept(), ElementsAre(2, 4, 5));
}

// The save at the end of the epoch's last batch comes before the epoch's evaluation.
TEST_F(KeepBestRun, AnEvaluationAfterTheSaveRanksIt) {
  TrainerOptions made = options("4ep");
  made.save_interval = "5ba";
  made.eval_interval = "1ep";
  made.save_keep_best->count = 1;
  values = {{5, .9}, {10, .3}, {15, .4}, {20, .5}};
  Trainer(std::move(made)).fit();
  EXPECT_THAT(kept(), ElementsAre(5, 20));
}

TEST_F(KeepBestRun, EvaluatingOtherDataAfterwardsChangesNoRank) {
  Trainer trainer(options("5ba"));
  trainer.fit();
  const auto best = trainer.best_checkpoints();
  values[5] = .99;  // the metric of the test data
  trainer.eval(tiny_loader(4));
  EXPECT_EQ(trainer.best_checkpoints(), best);
}

TEST_F(KeepBestRun, AnOlderValueDoesNotRankALaterCheckpoint) {
  TrainerOptions made = options("7ba");
  made.eval_interval = "2ba";
  values = {{2, .9}, {4, .1}, {6, .2}, {7, .0}};  // 7: the end of training.
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_THAT(trainer.best_checkpoints(),
              ElementsAre(Pair(::testing::_, .9), Pair(::testing::_, .2)));
  trainer.close();
  EXPECT_THAT(kept(), ElementsAre(2, 6, 7));
}

TEST_F(KeepBestRun, TrainMetricsAndNamesAsLogged) {
  TrainerOptions made = options("5ba");
  made.save_keep_best = {.metric = "metrics/train/MeanOutput", .count = 1, .mode = "min"};
  std::map<double, std::int64_t> by_value;
  made.callbacks.push_back(CallAt(Event::kBatchEnd, [&](State& state) {
    by_value[state.metric_value("train", "MeanOutput").value()] = state.timestamp.batch;
  }));
  Trainer trainer(std::move(made));
  trainer.fit();
  ASSERT_EQ(by_value.size(), 5U);
  const auto best = trainer.best_checkpoints();
  ASSERT_EQ(best.size(), 1U);
  EXPECT_EQ(best[0].second, by_value.begin()->first);
  EXPECT_THAT(best[0].first, HasSubstr("ba" + std::to_string(by_value.begin()->second) + "-"));
}

TEST_F(KeepBestRun, InAStoreTheNumberOfTheStoreCounts) {
  const auto store = memory_store();
  const auto run = [&](const char* duration) {
    TrainerOptions made = options(duration);
    made.save_folder = "run";
    made.save_num_checkpoints_to_keep.reset();
    made.save_num_remote_checkpoints_to_keep = 1;
    made.save_object_store = store;
    Trainer(std::move(made)).fit();
  };
  run("3ba");
  run("6ba");
  EXPECT_THAT(list_names(*store, "run"), ElementsAre("ep0-ba2-rank0.pt", "ep0-ba4-rank0.pt",
                                                     "ep1-ba6-rank0.pt", "latest-rank0.pt"));
}

TEST_F(KeepBestRun, PlacesOfLoggersKeepThemToo) {
  const auto store = memory_store();
  TrainerOptions made = options("6ba");
  made.eval_interval = "2ba";  // The others have no rank, also while their uploads are under way.
  made.save_num_remote_checkpoints_to_keep = 1;
  made.save_remote_file_name = "up/ba{batch}";
  made.save_latest_remote_file_name = "up/latest";
  made.loggers = {RemoteUploaderDownloader({.store = store})};
  Trainer trainer(std::move(made));
  trainer.fit();
  trainer.close();
  EXPECT_THAT(list_names(*store, "up"), ElementsAre("ba2", "ba4", "ba6", "latest"));
  EXPECT_THAT(kept(), ElementsAre(2, 4, 6));
}

// The process dies at each operation of the disk in turn. After the restart the best are there.
TEST_F(KeepBestRun, AtEveryOperationARestartKeepsTheBest) {
  const std::string dir = "/run/ckpt";
  const auto on = [&](FileSystem& disk) {
    TrainerOptions made = options("4ba");
    made.save_folder = dir;
    made.save_keep_best->count = 1;
    made.save_object_store = local_store(disk);
    return made;
  };
  values = {{1, .9}, {2, .1}, {3, .3}, {4, .2}};
  int crashes = 0;
  std::set<std::string> seen;
  for (std::uint64_t n = 1;; ++n) {
    SimFileSystem disk;
    disk.crash_at(n);
    bool has_ended = false;
    try {
      Trainer trainer(on(disk));
      trainer.fit();
      trainer.close();
      has_ended = true;
    } catch (const SimulatedCrash&) {
      ++crashes;
    }
    for (const auto& left : disk.after_power_loss()) {
      if (!seen.insert(left->describe()).second) continue;
      Trainer(on(*left)).fit();
      EXPECT_THAT(list_names(*local_store(*left), dir),
                  ElementsAre("ep0-ba1-rank0.pt", "ep0-ba4-rank0.pt", "latest-rank0.pt"))
          << n;
    }
    if (has_ended) break;
  }
  EXPECT_GT(crashes, 20);
}

// --- Without a Trainer ---------------------------------------------------------------------------

struct KeepBestLoop : ::testing::Test {
  // Saves a step for each of `scores`.
  std::vector<std::pair<std::string, double>> run(const std::vector<double>& scores) {
    double score = 0;
    std::int64_t step = 0;
    Checkpoints ck({.folder = folder.path(),
                    .keep = 1,
                    .keep_best = KeepBest{.metric = "score", .mode = "max"},
                    .save_async = false,
                    .handle_signals = false,
                    .store = store});
    ck.add("score", score).add("step", step);
    ck.resume();
    for (const double each : scores) {
      score = each;
      ck.save(++step);
    }
    auto best = ck.best_checkpoints();
    EXPECT_EQ(ck.finish(), 0);
    return best;
  }
  const TempFolder folder;
  std::shared_ptr<ObjectStore> store = nullptr;
};

// The entry "score" is what each step's checkpoint is ranked by.
TEST_F(KeepBestLoop, ARestartKnowsTheScoresOfBefore) {
  for (const auto& where : {std::shared_ptr<ObjectStore>(), memory_store()}) {
    store = where;
    const auto names = [&] { return list_names(store ? *store : *local_store(), folder.path()); };
    EXPECT_THAT(run({.2, .9, .4}), ElementsAre(Pair(folder / "step2.pt", .9)));
    EXPECT_THAT(names(), ElementsAre("latest.pt", "step2.pt", "step3.pt"));
    EXPECT_THAT(run({.1, .5}), ElementsAre(Pair(folder / "step2.pt", .9)));
    EXPECT_THAT(names(), ElementsAre("latest.pt", "step2.pt", "step5.pt"));
    EXPECT_THAT(run({.95}), ElementsAre(Pair(folder / "step6.pt", .95)));
    EXPECT_THAT(names(), ElementsAre("latest.pt", "step6.pt"));
  }
}

TEST_F(KeepBestLoop, NeedsAnEntryThatIsANumber) {
  std::string text = "good";
  Checkpoints ck({.folder = folder.path(),
                  .keep = 1,
                  .keep_best = KeepBest{.metric = "loss"},
                  .handle_signals = false});
  ck.add("text", text);
  EXPECT_THAT(message_of<UsageError>([&] { ck.resume(); }), HasSubstr("add(\"loss\", value)"));
  ck.add("loss", text);
  EXPECT_THAT(message_of<UsageError>([&] { ck.save(1); }), HasSubstr("which is no number"));
}

// --- Mistakes ------------------------------------------------------------------------------------

TEST_F(KeepBestRun, MistakesAreFoundBeforeTraining) {
  const auto error = [&](const KeepBest& best) {
    TrainerOptions made = options("1ba");
    made.save_keep_best = best;
    return message_of<UsageError>([&] { Trainer(std::move(made)).fit(); });
  };
  EXPECT_THAT(error({.metric = "val/MeanOutput", .mode = "max"}),
              HasSubstr("the label in keep_best.metric is \"val\""));
  EXPECT_THAT(error({.metric = "eval/Accuracy"}), HasSubstr("no metric \"Accuracy\" of \"eval\""));
  EXPECT_THAT(error({.metric = "eval/MeanOutput"}), HasSubstr("set mode to min or max"));
  EXPECT_THAT(error({.metric = "eval/MeanOutput", .mode = "best"}), HasSubstr("min, max or auto"));
  EXPECT_THAT(error({.metric = "eval/Accuracy", .count = 0}), HasSubstr("at least 1"));
  EXPECT_THAT(error({}), HasSubstr("needs the name of a metric"));
  TrainerOptions all = options("1ba");
  all.save_num_checkpoints_to_keep.reset();
  EXPECT_THAT(message_of<UsageError>([&] { Trainer(std::move(all)); }),
              HasSubstr("set save_num_checkpoints_to_keep"));
  EXPECT_THAT(message_of<UsageError>(
                  [&] { CheckpointSaver({.keep_best = KeepBest{.metric = "eval/Accuracy"}}); }),
              HasSubstr("set num_checkpoints_to_keep"));
  EXPECT_EQ(CheckpointSaver({.num_checkpoints_to_keep = 1,
                             .keep_best = KeepBest{.metric = "eval/CrossEntropy"}})
                .options()
                .keep_best->mode,
            BestMode::kMin);
}

}  // namespace
}  // namespace cairn
