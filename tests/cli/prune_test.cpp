#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "cli/shell/duration.h"
#include "cli/shell/keep_best.h"
#include "io/file.h"
#include "run_folder.h"
#include "run_tool.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kData;

class PruneTest : public ::testing::Test {
 protected:
  Answer prune(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"prune", folder_.path()});
    return run(arguments);
  }
  json prune_json(std::vector<std::string> arguments, int code = kDone) const {
    arguments.emplace_back("--json");
    const Answer answer = prune(arguments);
    EXPECT_EQ(answer.code, code) << answer.out << answer.err;
    return json::parse(answer.out);
  }
  void save(const std::vector<std::int64_t>& batches) const {
    for (const std::int64_t batch : batches) {
      folder_.save(batch);
    }
  }
  std::vector<std::int64_t> left(const std::vector<std::int64_t>& batches) const {
    std::vector<std::int64_t> there;
    for (const std::int64_t batch : batches) {
      if (folder_.has(RunFolder::name(batch))) there.push_back(batch);
    }
    return there;
  }
  // A full checkpoint with an accuracy, as a Trainer with save_metrics writes it.
  void save_with_metric(std::int64_t batch, double accuracy) const {
    Value value = testing::sample_checkpoint(batch);
    const auto number = std::make_shared<const double>(accuracy);
    const Value computed =
        make_tensor(DType::kFloat64, {}, {std::as_bytes(std::span(number.get(), 1)), number});
    value.mutable_dict()["state"].mutable_dict().set(
        "eval_metrics",
        Dict{{"eval", Dict{{"MulticlassAccuracy",
                            Dict{{"state_dict", Dict()}, {"_computed", computed}}}}}});
    cairn::save(value, folder_ / RunFolder::name(batch), {.info = testing::sample_info(batch)});
    folder_.set_time(RunFolder::name(batch), RunFolder::start() + std::chrono::minutes(batch));
  }

  RunFolder folder_;
};

// A file that verifies may still hold no training state. Such a file does not count as the newest
// good checkpoint.
TEST_F(PruneTest, WhatIsNoTrainingStateIsNeverTheNewestGoodOne) {
  save({10, 20, 30});
  cairn::save(Dict{{"state", Dict{{"model", Dict()}}}}, folder_ / RunFolder::name(900),
              {.info = testing::sample_info(900)});
  const json answer = prune_json({"--keep-last", "1", "--yes"}, kDamaged);
  EXPECT_EQ(left({10, 20, 30, 900}), (std::vector<std::int64_t>{10, 20, 30, 900}));
  EXPECT_EQ(answer["blocked_by"][0]["name"], RunFolder::name(900));
  std::filesystem::remove(folder_ / RunFolder::name(900));
  prune_json({"--keep-last", "1", "--yes"});
  EXPECT_EQ(left({10, 20, 30}), (std::vector<std::int64_t>{30}));
}

TEST_F(PruneTest, WithoutYesThePlanIsPrintedAndNothingIsDone) {
  save({10, 20, 30});
  const Answer answer = prune({"--keep-last", "2"});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_EQ(answer.err, "");
  EXPECT_THAT(answer.out, ::testing::MatchesRegex(
                              " +NAME +SIZE +WHY\n"
                              "remove +ep1-ba10-rank0.pt +[0-9.]+ KiB +no rule keeps it\n"
                              "keep +ep2-ba20-rank0.pt +[0-9.]+ KiB +last 2 of 2\n"
                              "keep +ep3-ba30-rank0.pt +[0-9.]+ KiB +the newest good one; last 1 "
                              "of 2\n"
                              "would keep 2, remove 1, free [0-9.]+ KiB .nothing done; add "
                              "--yes.\n"));
  EXPECT_THAT(left({10, 20, 30}), ElementsAre(10, 20, 30));
}

TEST_F(PruneTest, WithYesWhatNoRuleKeepsIsGone) {
  save({10, 20, 30});
  const Answer answer = prune({"--keep-last", "1", "--yes"});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_THAT(answer.out, HasSubstr("kept 1, removed 2, freed"));
  EXPECT_THAT(left({10, 20, 30}), ElementsAre(30));
}

TEST_F(PruneTest, JsonHasEachDecisionWithItsReasons) {
  save({10, 20});
  const json answer = prune_json({"--keep-last", "1", "--yes"});
  EXPECT_EQ(answer["done"], true);
  EXPECT_EQ(answer["keep"], 1);
  EXPECT_EQ(answer["remove"], 1);
  EXPECT_EQ(answer["free_bytes"], answer["checkpoints"][0]["bytes"]);
  EXPECT_EQ(answer["exit_code"], 0);
  EXPECT_EQ(answer["checkpoints"][0]["name"], RunFolder::name(10));
  EXPECT_EQ(answer["checkpoints"][0]["removed"], true);
  EXPECT_EQ(answer["checkpoints"][1]["removed"], false);
  EXPECT_EQ(answer["checkpoints"][1]["reasons"], (json{"the newest good one", "last 1 of 1"}));
}

TEST_F(PruneTest, WithoutARuleNothingIsAskedFor) {
  save({10, 20});
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--yes"}, {"--keep-last", "0", "--yes"}}) {
    const Answer answer = prune(arguments);
    EXPECT_EQ(answer.code, kFailed);
    EXPECT_THAT(answer.err, HasSubstr("--keep-last"));
  }
  for (const char* count : {"-1", "all"}) {
    const Answer answer = prune({"--keep-last", count});
    EXPECT_EQ(answer.code, kFailed) << count;
    EXPECT_THAT(answer.err, HasSubstr(std::string(count) +
                                      ": a number of 0 or more is needed, as in --keep-last 3"));
  }
  EXPECT_EQ(prune({"--keep-every", "soon"}).code, kFailed);
  EXPECT_EQ(prune({"--keep-within", "7"}).code, kFailed);
  EXPECT_THAT(left({10, 20}), ElementsAre(10, 20));
}

TEST_F(PruneTest, PinnedAndLinkedOnesStay) {
  save({10, 20, 30, 40});
  folder_.write(RunFolder::name(10) + ".pin", "for the paper\n");
  folder_.link("latest-rank0.pt", RunFolder::name(20));
  const Answer answer = prune({"--keep-last", "1", "--yes"});
  EXPECT_THAT(left({10, 20, 30, 40}), ElementsAre(10, 20, 40));
  EXPECT_THAT(answer.out, HasSubstr("pinned"));
  EXPECT_THAT(answer.out, HasSubstr("latest-rank0.pt points at it"));
}

// Different spellings of the folder and of the link's target still mean the same file.
TEST_F(PruneTest, LinkedOnesStayHoweverTheFolderIsWritten) {
  const testing::TempFolder elsewhere;
  const std::string alias = elsewhere / "alias";
  std::filesystem::create_directory_symlink(folder_.path(), alias);
  save({10, 20, 30, 40});
  folder_.link("latest-rank0.pt", RunFolder::name(10));
  folder_.link("best.pt", folder_ / RunFolder::name(20));
  folder_.link("chosen.pt", alias + "/" + RunFolder::name(30));
  for (const std::string& folder :
       {folder_.path() + "/", folder_.path() + "//", folder_ / ".",
        folder_ / "../" + base_name(folder_.path()),
        std::filesystem::relative(folder_.path()).string(), alias, alias + "/"}) {
    const Answer answer = run({"prune", folder, "--keep-last", "1", "--yes"});
    EXPECT_EQ(answer.code, kDone) << answer.err;
    EXPECT_THAT(answer.out, HasSubstr("kept 4, removed 0")) << folder;
    EXPECT_THAT(run({"ls", folder}).out, HasSubstr("latest")) << folder;
  }
  EXPECT_THAT(left({10, 20, 30, 40}), ElementsAre(10, 20, 30, 40));
}

TEST(PruneFarTest, LinkedOnesStayWithASlashAtTheFoldersEnd) {
  const std::string run_folder = "memory://prune_far_test/run/";
  const auto store = object_store_of(run_folder);
  for (const std::int64_t batch : {10, 20}) {
    cairn::save(testing::sample_checkpoint(batch), run_folder + RunFolder::name(batch),
                {.info = testing::sample_info(batch), .store = store});
  }
  store->move_pointer(run_folder + "latest-rank0.pt", run_folder + RunFolder::name(10));
  const Answer answer = run({"prune", run_folder, "--keep-last", "1", "--yes"});
  EXPECT_THAT(answer.out, HasSubstr("latest-rank0.pt points at it")) << answer.err;
  EXPECT_TRUE(store->stat(run_folder + RunFolder::name(10)));
}

TEST_F(PruneTest, NothingGoesWhenTheNewestDoesNotVerify) {
  save({10, 20, 30});
  folder_.damage(RunFolder::name(30), /*visibly=*/false);  // only a full check finds this damage
  const json answer = prune_json({"--keep-last", "1", "--yes"}, kDamaged);
  EXPECT_EQ(answer["blocked_by"][0]["name"], RunFolder::name(30));
  EXPECT_THAT(answer["blocked_by"][0]["problem"].get<std::string>(), HasSubstr("CRC-32"));
  EXPECT_EQ(answer["remove"], 0);
  EXPECT_THAT(left({10, 20, 30}), ElementsAre(10, 20, 30));
  const Answer text = prune({"--keep-last", "1"});
  EXPECT_THAT(text.err, HasSubstr("ep3-ba30-rank0.pt does not verify"));
}

// A start put these files aside. They neither count, nor go, nor stop anything.
TEST_F(PruneTest, FilesThatWerePutAsideAreLeftAlone) {
  save({10, 20, 30, 900});
  for (const char* ending : {".damaged", ".damaged-2", ".unreadable", ".aside"}) {
    std::filesystem::copy_file(folder_ / RunFolder::name(900),
                               folder_ / (RunFolder::name(900) + ending));
  }
  testing::write_file(folder_ / (RunFolder::name(900) + ".damaged"), "torn");
  const json answer = prune_json({"--keep-last", "2", "--yes"});
  EXPECT_EQ(left({10, 20, 30, 900}), (std::vector<std::int64_t>{30, 900}));
  for (const char* ending : {".damaged", ".damaged-2", ".unreadable", ".aside"}) {
    EXPECT_TRUE(folder_.has(RunFolder::name(900) + ending)) << ending;
  }
}

TEST_F(PruneTest, ATruncatedNewestFileBlocksToo) {
  save({10, 20});
  folder_.write(RunFolder::name(30), "PK\x03\x04 and then the power went");
  EXPECT_EQ(prune({"--keep-last", "1", "--yes"}).code, kDamaged);
  EXPECT_THAT(left({10, 20}), ElementsAre(10, 20));
}

TEST_F(PruneTest, OldDamageIsLeftAloneAndDoesNotCount) {
  save({10, 20, 30});
  folder_.damage(RunFolder::name(20), /*visibly=*/true);
  EXPECT_EQ(prune({"--keep-last", "2", "--yes"}).code, kDone);
  EXPECT_THAT(left({10, 20, 30}), ElementsAre(10, 20, 30));
  folder_.save(40);
  EXPECT_EQ(prune({"--keep-last", "2", "--yes"}).code, kDone);
  EXPECT_THAT(left({10, 20, 30, 40}), ElementsAre(20, 30, 40));
}

TEST_F(PruneTest, VerifyFindsDamageInAllOfThem) {
  save({10, 20, 30});
  folder_.damage(RunFolder::name(20), /*visibly=*/false);
  prune({"--keep-last", "2", "--verify", "--yes"});
  EXPECT_THAT(left({10, 20, 30}), ElementsAre(10, 20, 30));
}

TEST_F(PruneTest, WhatAProcessIsWritingStays) {
  save({8, 10, 20});
  const std::string path = folder_ / "ep0-ba5-rank0.pt";
  const auto bytes = testing::read_file(folder_ / RunFolder::name(10));
  auto writer = posix_file_system().create(path, {.lock = true});
  writer->write(as_bytes(bytes));
  writer->sync();
  folder_.set_time("ep0-ba5-rank0.pt", RunFolder::start());
  const Answer answer = prune({"--keep-last", "1", "--yes"});
  EXPECT_THAT(answer.out, HasSubstr("a process is writing it"));
  EXPECT_TRUE(folder_.has("ep0-ba5-rank0.pt"));
  EXPECT_TRUE(folder_.has(RunFolder::name(10))) << "of the same position";
  EXPECT_FALSE(folder_.has(RunFolder::name(8)));
}

TEST_F(PruneTest, OtherFilesAreNotTouched) {
  save({10, 20});
  folder_.write("notes.txt", "notes");
  std::filesystem::copy(kData + "/torch-2.6/many.pt", folder_ / "many.pt");
  std::filesystem::copy(kData + "/composer-0.33/containers/weights_only.pt", folder_ / "w.pt");
  prune({"--keep-last", "1", "--yes"});
  for (const char* name : {"notes.txt", "many.pt", "w.pt"}) {
    EXPECT_TRUE(folder_.has(name)) << name;
  }
  EXPECT_THAT(left({10, 20}), ElementsAre(20));
}

// A folder is removed only if everything in it belongs to the checkpoint.
TEST_F(PruneTest, AFolderWithFilesOfOthersStaysAndSaysWhy) {
  save({10, 20, 30});
  for (const std::int64_t batch : {10, 20, 30}) {
    const std::string file = folder_ / RunFolder::name(batch);
    ASSERT_EQ(run({"convert", file, folder_ / "dcp/", "--to", "dcp"}).code, kDone);
    std::filesystem::remove(file);
    std::filesystem::rename(folder_ / "dcp", file);
  }
  folder_.write(RunFolder::name(10) + "/notes.txt", "precious");
  const json answer = prune_json({"--keep-last", "1", "--yes"});
  EXPECT_THAT(left({10, 20, 30}), ElementsAre(10, 30)) << answer;
  EXPECT_EQ(answer["checkpoints"][0]["reasons"][0],
            "it holds notes.txt, which is no part of a checkpoint");
  std::filesystem::remove(folder_ / (RunFolder::name(10) + "/notes.txt"));
  std::filesystem::create_directory(folder_ / (RunFolder::name(10) + "/sub"));
  prune({"--keep-last", "1", "--yes"});
  EXPECT_THAT(left({10, 20, 30}), ElementsAre(10, 30));
  std::filesystem::remove(folder_ / (RunFolder::name(10) + "/sub"));
  prune({"--keep-last", "1", "--yes"});
  EXPECT_THAT(left({10, 20, 30}), ElementsAre(30));
}

TEST_F(PruneTest, CheckpointsOfComposerArePrunedLikeOurs) {
  for (const char* name : {"ep0-ba3-rank0.pt", "ep0-ba5-rank0.pt", "ep1-ba8-rank0.pt"}) {
    std::filesystem::copy(kData + "/composer-0.33/ema/" + name, folder_ / name);
  }
  EXPECT_EQ(prune({"--keep-every", "5ba", "--yes"}).code, kDone);
  EXPECT_FALSE(folder_.has("ep0-ba3-rank0.pt"));
  EXPECT_TRUE(folder_.has("ep0-ba5-rank0.pt"));
  EXPECT_TRUE(folder_.has("ep1-ba8-rank0.pt"));
}

TEST_F(PruneTest, BestGoesByTheSavedMetric) {
  save_with_metric(10, 0.5);
  save_with_metric(20, 0.9);
  save_with_metric(30, 0.7);
  save_with_metric(40, 0.6);
  const Answer plan = prune({"--keep-best", "MulticlassAccuracy:2"});
  EXPECT_THAT(plan.out, HasSubstr("best 1 of 2 by eval/MulticlassAccuracy: 0.9"));
  prune({"--keep-best", "MulticlassAccuracy:2", "--mode", "max", "--yes"});
  EXPECT_THAT(left({10, 20, 30, 40}), ElementsAre(20, 30, 40));
  const Answer unknown = prune({"--keep-best", "Loss", "--yes"});
  EXPECT_EQ(unknown.code, kFailed);
  EXPECT_THAT(unknown.err, HasSubstr("there are eval/MulticlassAccuracy"));
}

TEST_F(PruneTest, SizeKeepsTheNewestThatFitTogether) {
  save({10, 20, 30, 40});
  const std::uint64_t one = std::filesystem::file_size(folder_ / RunFolder::name(40));
  EXPECT_THAT(prune({"--keep-size", "100GB"}).out, HasSubstr("would keep 4, remove 0"));
  for (const char* size : {"0", "-1", "much"}) {
    EXPECT_EQ(prune({"--keep-size", size}).code, kFailed) << size;
  }
  const std::string size = std::to_string((2 * one + one / 2) / 1000) + "kB";
  EXPECT_EQ(prune({"--keep-size", size, "--yes"}).code, kDone);
  EXPECT_THAT(left({10, 20, 30, 40}), ElementsAre(30, 40));
  EXPECT_EQ(prune({"--keep-size", "1kB", "--yes"}).code, kDone);
  EXPECT_THAT(left({10, 20, 30, 40}), ElementsAre(40));
}

TEST_F(PruneTest, WithinGoesByTheTimeOfTheFile) {
  save({10, 20, 30});
  folder_.set_time(RunFolder::name(10), std::chrono::system_clock::now() - std::chrono::hours(1));
  prune({"--keep-within", "2h", "--yes"});
  EXPECT_THAT(left({10, 20, 30}), ElementsAre(10, 30));
}

TEST_F(PruneTest, AnUnfinishedRemovalOfAFolderIsFinished) {
  save({10});
  std::filesystem::create_directory(folder_ / ".cairn-removing-ep0-ba5");
  folder_.write(".cairn-removing-ep0-ba5/__0_0.distcp", "rest");
  prune({"--keep-last", "1"});
  EXPECT_TRUE(folder_.has(".cairn-removing-ep0-ba5"));
  prune({"--keep-last", "1", "--yes"});
  EXPECT_FALSE(folder_.has(".cairn-removing-ep0-ba5"));
}

TEST(DurationTest, NumbersWithUnitsAddUp) {
  EXPECT_EQ(parse_duration("90m"), std::chrono::minutes(90));
  EXPECT_EQ(parse_duration("1w2d3h4m5s"),
            std::chrono::hours((7 + 2) * 24 + 3) + std::chrono::seconds(4 * 60 + 5));
  EXPECT_EQ(parse_duration("0s"), std::chrono::seconds(0));
  for (const char* text : {"", "7", "d", "-1d", "1.5h", "1y", "1d ", "99999999999999999999d",
                           "1000000w", "9223372036854775807s"}) {
    EXPECT_THROW(parse_duration(text), UsageError) << text;
  }
}

TEST(KeepBestTest, ANameAloneIsTheOneEvaluatorsThatHasIt) {
  const std::set<std::string> known = {"train/Accuracy", "eval/Accuracy", "a/Loss", "b/Loss",
                                       "train/Perplexity"};
  const auto metric = [&](const char* text) { return parse_keep_best(text, known, "auto").metric; };
  EXPECT_EQ(metric("Accuracy"), "eval/Accuracy");
  EXPECT_EQ(metric("train/Accuracy:3"), "train/Accuracy");
  EXPECT_EQ(metric("Perplexity"), "train/Perplexity");
  EXPECT_THROW(metric("Loss"), UsageError);
  EXPECT_THROW(metric("Accuracy:"), UsageError);
  EXPECT_THROW(metric("Accuracy:two"), UsageError);
}

TEST(KeepBestTest, LowOrHighFollowsFromTheNameOrIsAsked) {
  const auto best = [](const char* name, const char* mode) {
    return parse_keep_best(name, {std::string("eval/") + name}, mode).best;
  };
  EXPECT_EQ(best("CrossEntropy", "auto"), Best::kLowest);
  EXPECT_EQ(best("MulticlassAccuracy", "auto"), Best::kHighest);
  EXPECT_EQ(best("Strangeness", "max"), Best::kHighest);
  EXPECT_EQ(best("MulticlassAccuracy", "min"), Best::kLowest);
  EXPECT_THROW(best("Strangeness", "auto"), UsageError);
}

}  // namespace
}  // namespace cairn::cli
