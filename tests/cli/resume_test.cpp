#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cairn/storage/stores.h"

#include "run_folder.h"
#include "run_tool.h"
#include "testing/sample_checkpoint.h"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ResumeTest : public ::testing::Test {
 protected:
  Answer explain(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"resume", "--explain", folder_.path()});
    return run(more);
  }
  // The reasons against each other file, by its name.
  std::map<std::string, std::string> reasons(const json& answer) const {
    std::map<std::string, std::string> all;
    for (const json& other : answer["others"]) {
      const std::string path = other["path"];
      all.emplace(path.substr(path.rfind('/') + 1), other["why"]);
    }
    return all;
  }

  RunFolder folder_;
};

TEST_F(ResumeTest, TheFirstLineIsWhatAutoresumeWouldLoad) {
  folder_.save(10);
  folder_.save(20);
  const Answer answer = explain();
  EXPECT_EQ(answer.code, kDone);
  EXPECT_THAT(answer.out, StartsWith(folder_ / RunFolder::name(20) + "\nepoch 2, batch 20; ok: "));
  EXPECT_THAT(answer.out, HasSubstr("behind it, at epoch 1, batch 10"));
  EXPECT_EQ(answer.err, "");
}

// As in a Trainer, where listing costs requests.
TEST_F(ResumeTest, InAStoreThePointerComesFirst) {
  const std::string place = "memory://resume_test/run";
  const auto store = object_store_of(place);
  for (const std::int64_t batch : {10, 20}) {
    cairn::save(testing::sample_checkpoint(batch), place + "/" + RunFolder::name(batch),
                {.info = testing::sample_info(batch)});
  }
  store->move_pointer(place + "/latest-rank0.pt", place + "/" + RunFolder::name(10));
  const auto answer = [&] {
    return json::parse(run({"resume", "--explain", place, "--json"}).out);
  };
  EXPECT_EQ(answer()["path"], place + "/" + RunFolder::name(10));
  EXPECT_EQ(reasons(answer())[RunFolder::name(20)], "not looked at: what latest points at is good");
  store->remove(place + "/latest-rank0.pt");
  EXPECT_EQ(answer()["path"], place + "/" + RunFolder::name(20));
}

TEST_F(ResumeTest, EachOtherFileHasItsReason) {
  for (const std::int64_t batch : {10, 20, 30, 40}) {
    folder_.save(batch);
  }
  folder_.damage(RunFolder::name(40), /*visibly=*/false);
  folder_.write(RunFolder::name(50), "");
  cairn::save(Dict{{"a", 1}}, folder_ / "ep6-ba60-rank0.pt");
  std::filesystem::rename(folder_ / RunFolder::name(20), folder_ / "mine.pt");
  folder_.write("notes.txt", "no checkpoint by its name");
  const Answer answer = explain({"--json"});
  EXPECT_EQ(answer.code, kDone);
  const json object = json::parse(answer.out);
  EXPECT_EQ(object["path"], folder_ / RunFolder::name(30));
  EXPECT_EQ(object["epoch"], 3);
  EXPECT_EQ(object["batch"], 30);
  EXPECT_EQ(object["sample"], 960);
  const auto why = reasons(object);
  EXPECT_EQ(why.size(), 5U);
  EXPECT_THAT(why.at(RunFolder::name(10)), HasSubstr("behind it"));
  EXPECT_THAT(why.at("mine.pt"), HasSubstr("not made from ep{epoch}-ba{batch}-rank0.pt, nor"));
  EXPECT_THAT(why.at(RunFolder::name(40)), HasSubstr("CRC-32"));
  EXPECT_THAT(why.at(RunFolder::name(50)), HasSubstr("empty file"));
  EXPECT_THAT(why.at("ep6-ba60-rank0.pt"), HasSubstr("whole state"));
}

TEST_F(ResumeTest, TheToolAndTheTrainersSearchAgree) {
  for (const std::int64_t batch : {10, 20, 30}) {
    folder_.save(batch);
  }
  folder_.damage(RunFolder::name(30), /*visibly=*/false);
  const auto found = find_latest(folder_.path());
  ASSERT_TRUE(found);
  EXPECT_EQ(json::parse(explain({"--json"}).out)["path"], found->path);
}

TEST_F(ResumeTest, FormatsAndRunNameAreTheTrainers) {
  folder_.save(10);
  std::filesystem::rename(folder_ / RunFolder::name(10), folder_ / "sample-10.pt");
  EXPECT_EQ(explain().code, kNotFound);
  const Answer named =
      explain({"--save-filename", "{run_name}-{batch}.pt", "--run-name", "sample"});
  EXPECT_EQ(named.code, kDone);
  EXPECT_THAT(named.out, StartsWith(folder_ / "sample-10.pt"));
  folder_.link("newest", "sample-10.pt");
  EXPECT_THAT(explain({"--save-latest-filename", "newest"}).out,
              StartsWith(folder_ / "sample-10.pt"));
}

// Without a checkpoint in it, a run with that save_folder would begin afresh or refuse to start.
TEST_F(ResumeTest, AFolderThatIsThereIsTakenAsItStandsWhateverBracesAreInItsName) {
  for (const std::string name : {"{rank}", "lr{{0.1}}", "lr{0.1}", "{run_name}", "a}b{"}) {
    const std::string folder = folder_ / name;
    EXPECT_NE(run({"resume", "--explain", folder}).code, kDone);
    cairn::save(testing::sample_checkpoint(10), folder + "/ep1-ba10-rank0.pt",
                {.info = testing::sample_info(10)});
    const Answer answer = run({"resume", "--explain", folder, "--run-name", "sample"});
    EXPECT_EQ(answer.code, kDone) << answer.err;
    EXPECT_THAT(answer.out, StartsWith(folder + "/ep1-ba10-rank0.pt\n"));
  }
  cairn::save(testing::sample_checkpoint(10), folder_ / "sample/ep1-ba10-rank0.pt",
              {.info = testing::sample_info(10)});
  std::filesystem::remove_all(folder_ / "{run_name}");
  EXPECT_THAT(run({"resume", "--explain", folder_ / "{run_name}", "--run-name", "sample"}).out,
              StartsWith(folder_ / "sample/ep1-ba10-rank0.pt\n"));
}

// A file with the whole state of a run would be a reason to refuse the start.
TEST_F(ResumeTest, SaysThatNamesAreNotOfTheFormat) {
  cairn::save(Dict{{"a", 1}}, folder_ / "step10.pt", {.info = testing::sample_info(10)});
  EXPECT_THAT(explain().err, HasSubstr("start afresh. One checkpoint there was not looked at"));
  cairn::save(Dict{{"a", 1}}, folder_ / "step20.pt", {.info = testing::sample_info(20)});
  const Answer answer = explain();
  EXPECT_EQ(answer.code, kNotFound);
  EXPECT_THAT(
      answer.err,
      HasSubstr("start afresh. 2 checkpoints there were not looked at, because their names were "
                "not made from ep{epoch}-ba{batch}-rank0.pt. `cairn resume --save-filename "
                "FORMAT` looks at names of another format, as a run with that save_filename does"));
  EXPECT_THAT(explain({"--save-filename", "step{batch}.pt"}).err, Not(HasSubstr("not looked at")));
}

TEST_F(ResumeTest, CheckpointsOfAnotherRunAreNotChosen) {
  folder_.save(10);
  const Answer answer = explain({"--run-name", "mine"});
  EXPECT_EQ(answer.code, kNotFound);
  EXPECT_THAT(answer.out, HasSubstr("it is of the run \"sample\""));
  EXPECT_EQ(explain({"--run-name", "sample"}).code, kDone);
}

TEST_F(ResumeTest, NothingToGoOnFromIsCodeThree) {
  const Answer empty = explain();
  EXPECT_EQ(empty.code, kNotFound);
  EXPECT_EQ(empty.out, "");
  EXPECT_THAT(empty.err, HasSubstr("start afresh"));
  const Answer as_json = explain({"--json"});
  EXPECT_EQ(as_json.code, kNotFound);
  EXPECT_EQ(json::parse(as_json.out)["path"], nullptr);
  const Answer missing = run({"resume", folder_ / "missing"});
  EXPECT_EQ(missing.code, kNotFound);
  EXPECT_THAT(missing.err, HasSubstr("there is no folder " + (folder_ / "missing")));
}

TEST_F(ResumeTest, TheFlagIsNotNeeded) {
  folder_.save(10);
  const Answer answer = run({"resume", folder_.path()});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_EQ(answer.out, explain().out);
}

}  // namespace
}  // namespace cairn::cli
