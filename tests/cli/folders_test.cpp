// The tool names folders that hold checkpoints, and files that it did not read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"

#include "run_folder.h"
#include "run_tool.h"
#include "testing/sample_checkpoint.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// A run with two savers. They save in separate folders, full/ and weights/.
class FoldersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    save_in("full", 10);
    save_in("full", 20);
    save_in("weights", 20);
    folder_.write("notes.txt", "no checkpoint");
  }
  std::string save_in(const std::string& folder, std::int64_t batch) const {
    const std::string path = folder + "/" + RunFolder::name(batch);
    cairn::save(testing::sample_checkpoint(batch), folder_ / path,
                {.info = testing::sample_info(batch)});
    folder_.set_time(path, RunFolder::start() + std::chrono::minutes(batch));
    return path;
  }
  const std::string& run_folder() const { return folder_.path(); }

  RunFolder folder_;
};

TEST_F(FoldersTest, NothingFoundIsCodeThreeAndTheFoldersBelowAreNamed) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ls", run_folder()},
        {"prune", "--keep-last", "1", "--yes", run_folder()},
        {"verify", "--full", run_folder()},
        {"resume", run_folder()},
        {"inspect", run_folder()}}) {
    std::vector<std::string> quietly = arguments;
    quietly.emplace_back("-q");
    for (const Answer& answer : {run(arguments), run(quietly)}) {
      EXPECT_EQ(answer.code, kNotFound) << arguments.front();
      EXPECT_THAT(answer.err, AllOf(HasSubstr((folder_ / "full") + " (2 by name)"),
                                    HasSubstr((folder_ / "weights") + " (1 by name)")))
          << arguments.front();
    }
  }
  const std::vector<std::string> as_json = {"ls", run_folder(), "--json"};
  EXPECT_EQ(json::parse(run(as_json).out)["folders_below"],
            (json{{{"path", folder_ / "full"}, {"checkpoints", 2}},
                  {{"path", folder_ / "weights"}, {"checkpoints", 1}}}));
}

TEST_F(FoldersTest, CheckpointsTwoFoldersDownAndFoldersThatAreOnesAreNamedToo) {
  std::filesystem::create_directories(folder_ / "a/b");
  std::filesystem::rename(folder_ / "full", folder_ / "a/b/full");
  cairn::convert(folder_ / "weights/ep2-ba20-rank0.pt", folder_ / "sharded/ep2-ba20/");
  std::filesystem::remove_all(folder_ / "weights");
  EXPECT_THAT(run({"ls", run_folder()}).err, HasSubstr((folder_ / "a/b/full") + " (2 by name), " +
                                                       (folder_ / "sharded") + " (1 by"));
  std::filesystem::remove_all(folder_ / "a");
  std::filesystem::rename(folder_ / "sharded/ep2-ba20", folder_ / "ep2-ba20");
  const Answer answer = run({"ls", run_folder()});  // a folder that is a checkpoint is one row
  EXPECT_EQ(answer.code, kDone);
  EXPECT_THAT(answer.err, Not(HasSubstr("by name")));
}

TEST_F(FoldersTest, VerifyIsNotGreenWhileCheckpointsBelowWereNotLookedAt) {
  const std::string last = save_in(".", 30);
  folder_.damage("full/" + RunFolder::name(20), /*visibly=*/false);
  const Answer top = run({"verify", "--full", run_folder()});
  EXPECT_EQ(top.code, kFailed) << top.out << top.err;
  EXPECT_THAT(top.out, HasSubstr("every byte accounted for"));
  EXPECT_THAT(top.err, AllOf(HasSubstr("passed over 3"), HasSubstr((folder_ / "full") + " (2 by"),
                             HasSubstr("-r looks into folders")));
  const Answer all = run({"verify", "--full", "-r", run_folder()});
  EXPECT_EQ(all.code, kNegativeAnswer);
  EXPECT_THAT(all.out, AllOf(HasSubstr("CRC-32"), HasSubstr("1 of 4 damaged")));
  std::filesystem::remove(folder_ / ("full/" + RunFolder::name(20)));
  EXPECT_EQ(run({"verify", "--full", "-r", run_folder()}).code, kDone);
  EXPECT_EQ(run({"verify", "--full", folder_ / last}).code, kDone);
}

TEST_F(FoldersTest, RecursivelyEachFolderIsJudgedByItself) {
  const Answer listing = run({"ls", "-r", run_folder()});
  EXPECT_EQ(listing.code, kDone) << listing.err;
  EXPECT_THAT(listing.out, AllOf(HasSubstr((folder_ / "full") + ":\n"),
                                 HasSubstr((folder_ / "weights") + ":\n"), HasSubstr("ep2-ba20")));
  const json pruned =
      json::parse(run({"prune", "-r", "--json", "--yes", "--keep-last", "1", run_folder()}).out);
  EXPECT_EQ(pruned["exit_code"], 0);
  EXPECT_EQ(pruned["folders"].size(), 2U);
  EXPECT_FALSE(folder_.has("full/" + RunFolder::name(10)));
  EXPECT_TRUE(folder_.has("full/" + RunFolder::name(20)));
  EXPECT_TRUE(folder_.has("weights/" + RunFolder::name(20)));
}

TEST_F(FoldersTest, ACheckpointThatIsAFolderIsNotLookedInto) {
  std::filesystem::remove_all(folder_ / "weights");
  cairn::convert(folder_ / "full/ep2-ba20-rank0.pt", folder_ / "full/ep2-ba20/");
  std::vector<std::string> folders;
  const json shown = json::parse(run({"ls", "-r", "--json", run_folder()}).out);
  for (const json& folder : shown["folders"]) {
    folders.push_back(folder["folder"]);
  }
  EXPECT_THAT(folders, ElementsAre(folder_ / "full"));
}

TEST_F(FoldersTest, SeveralFoldersAreTakenAndOneWithoutCheckpointsDecides) {
  std::filesystem::create_directory(folder_ / "empty");
  const Answer both = run({"ls", folder_ / "full", folder_ / "weights"});
  EXPECT_EQ(both.code, kDone);
  EXPECT_THAT(both.out, AllOf(HasSubstr("full:\n"), HasSubstr("weights:\n")));
  EXPECT_EQ(run({"ls", folder_ / "full", folder_ / "empty"}).code, kNotFound);
  const std::vector<std::string> rule = {"prune", "--keep-last", "1", "--yes"};
  const auto prune = [&](const std::string& a, const std::string& b) {
    std::vector<std::string> arguments = rule;
    arguments.push_back(folder_ / a);
    arguments.push_back(folder_ / b);
    return run(arguments);
  };
  EXPECT_EQ(prune("full", "missing").code, kNotFound);
  EXPECT_TRUE(folder_.has("full/" + RunFolder::name(10)));  // nothing was removed
  EXPECT_EQ(prune("weights", "full").code, kDone);
  EXPECT_FALSE(folder_.has("full/" + RunFolder::name(10)));
}

TEST_F(FoldersTest, QuietReportsSayOnlyWhatIsBad) {
  const std::string full = folder_ / "full";
  const std::string good = full + "/" + RunFolder::name(10);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"verify", "--full", "-q", full},
        {"ls", "--verify", "-q", full},
        {"prune", "--keep-last", "2", "-q", full},
        {"convert", "-q", good, folder_ / "out.safetensors"},
        {"copy", "-q", good, folder_ / "copy.pt"},
        {"extract", "-q", good, "state/model", "-o", folder_ / "part.pt"},
        {"diff", "-q", good, good}}) {
    const Answer answer = run(arguments);
    EXPECT_EQ(answer.code, kDone) << arguments.front() << answer.err;
    EXPECT_EQ(answer.out + answer.err, "") << arguments.front();
  }
  folder_.damage("full/" + RunFolder::name(20), /*visibly=*/false);
  for (const char* command : {"verify --full", "ls --verify", "prune --verify --keep-last=1"}) {
    std::vector<std::string> arguments = {full, "-q"};
    std::istringstream words(command);
    for (std::string word; words >> word;) {
      arguments.push_back(word);
    }
    std::rotate(arguments.begin(), arguments.begin() + 2, arguments.end());
    const Answer answer = run(arguments);
    EXPECT_NE(answer.code, kDone) << command;
    EXPECT_THAT(answer.out + answer.err, AllOf(HasSubstr(RunFolder::name(20)), HasSubstr("CRC-32"),
                                               Not(HasSubstr(RunFolder::name(10)))))
        << command;
  }
  EXPECT_EQ(run({"resume", "-q", full}).out, good + "\n");
  EXPECT_THAT(run({"doctor", "-q"}).out, Not(HasSubstr("formats")));
}

TEST_F(FoldersTest, InspectTakesTheNewestGoodOneOfAFolder) {
  EXPECT_THAT(run({"inspect", folder_ / "full"}).out,
              AllOf(::testing::StartsWith(folder_ / "full/ep2-ba20-rank0.pt"),
                    HasSubstr("epoch 2, batch 20")));
  folder_.damage("full/" + RunFolder::name(20), /*visibly=*/true);
  EXPECT_THAT(run({"inspect", folder_ / "full"}).out, HasSubstr("epoch 1, batch 10"));
  std::filesystem::remove(folder_ / ("full/" + RunFolder::name(10)));
  const Answer none = run({"inspect", folder_ / "full"});
  EXPECT_EQ(none.code, kNotFound);
  EXPECT_THAT(none.err, AllOf(HasSubstr("none of the checkpoints"), HasSubstr("ep2-ba20-rank0")));
}

// A folder as transformers' Trainer leaves it. The loader of that Trainer reads the optimizer's
// state, too.
class ModelFolderTest : public FoldersTest {
 protected:
  void SetUp() override {
    FoldersTest::SetUp();
    cairn::convert(folder_ / "full/ep2-ba20-rank0.pt", model("model.safetensors"),
                   {.include = {"state/model/*"}});
    cairn::save(testing::sample_checkpoint(20), model("optimizer.pt"));
    folder_.write("model/config.json", "{}");
    folder_.write("model/merges.txt", "a b");
  }
  std::string model(const std::string& name = "") const { return folder_ / ("model/" + name); }
};

TEST_F(ModelFolderTest, AFolderIsOnlyAsGoodAsAllThatItsLoaderReads) {
  const Answer good = run({"verify", "--full", model()});
  EXPECT_EQ(good.code, kDone) << good.out << good.err;
  EXPECT_THAT(good.out, AllOf(HasSubstr("model/optimizer.pt"), HasSubstr("2 checked"),
                              HasSubstr("not read, as no part of it: config.json, merges.txt")));
  const json report = json::parse(run({"verify", "--json", model()}).out);
  EXPECT_EQ(report["files"][0]["not_read"], (json{"config.json", "merges.txt"}));
  folder_.damage("model/optimizer.pt", /*visibly=*/false);
  const Answer damaged = run({"verify", "--full", model()});
  EXPECT_EQ(damaged.code, kNegativeAnswer);
  EXPECT_THAT(damaged.out, AllOf(HasSubstr("DAMAGED"), HasSubstr("1 of 2 damaged")));
}

TEST_F(ModelFolderTest, WhatIsCalledLikeStateAndCannotBeReadIsSaidSo) {
  folder_.write("model/training_args.bin", "no pickle at all");
  const Answer answer = run({"verify", model()});
  EXPECT_EQ(answer.code, kIncompatible);
  EXPECT_THAT(answer.out, AllOf(HasSubstr("training_args.bin"), HasSubstr("not read")));
}

TEST_F(ModelFolderTest, CheckpointsBesideAModelFileAreCheckedToo) {
  std::filesystem::rename(model("model.safetensors"), folder_ / "full/model.safetensors");
  folder_.damage("full/" + RunFolder::name(10), /*visibly=*/false);
  const Answer answer = run({"verify", "--full", folder_ / "full"});
  EXPECT_EQ(answer.code, kNegativeAnswer);
  EXPECT_THAT(answer.out, HasSubstr("1 of 3 damaged"));
}

TEST_F(ModelFolderTest, CheckpointsBelowAModelFileAreNotPassedOverInSilence) {
  std::filesystem::rename(folder_ / "full", model("checkpoint-20"));
  const Answer answer = run({"verify", model()});
  EXPECT_EQ(answer.code, kFailed);
  EXPECT_THAT(answer.err, HasSubstr("model/checkpoint-20 (2 by name)"));
  EXPECT_EQ(run({"verify", "-r", model()}).code, kDone);
  EXPECT_THAT(run({"verify", "-r", model()}).out, HasSubstr("4 checked, none damaged"));
  std::filesystem::create_directory(model("checkpoint-30"));
  std::filesystem::copy(model("model.safetensors"), model("checkpoint-30/model.safetensors"));
  EXPECT_THAT(run({"verify", model()}).err, HasSubstr("model/checkpoint-30 (1 by name)"));
}

// A data file that .metadata does not name belongs to another save.
TEST_F(ModelFolderTest, FilesThatAreNoPartOfAShardedFolderAreListed) {
  cairn::convert(folder_ / "full/ep2-ba20-rank0.pt", folder_ / "sharded/");
  folder_.write("sharded/__7_0.distcp", "of another save");
  const Answer answer = run({"verify", "--full", folder_ / "sharded"});
  EXPECT_EQ(answer.code, kDone) << answer.out << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("not read, as no part of it: __7_0.distcp"));
}

}  // namespace
}  // namespace cairn::cli
