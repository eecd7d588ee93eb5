// Counts the HTTP requests of commands on a bucket with ten thousand checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cairn/checkpoint/checkpoint.h"

#include "io/bytes/source_part.h"
#include "run_folder.h"
#include "run_tool.h"
#include "testing/fake_s3.h"
#include "testing/s3_environment.h"
#include "testing/sample_checkpoint.h"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class S3CostTest : public ::testing::Test {
 protected:
  static constexpr const char* kFolder = "s3://bucket/run";
  static constexpr std::int64_t kBatches = 10'000;

  // The bytes of a checkpoint.
  static std::string file(std::int64_t batch, const std::string& run_name = "sample",
                          const std::string& kind = "full") {
    const auto store = memory_store();
    CheckpointInfo info = testing::sample_info(batch);
    info.run_name = run_name;
    info.kind = kind;
    save(testing::sample_checkpoint(batch), "a.pt", {.info = info, .store = store});
    return std::string(as_text(read_all(*store->open("a.pt")).view));
  }
  void put(std::int64_t batch, const std::string& bytes) {
    fake_.put_object("bucket/run/" + RunFolder::name(batch), bytes);
  }
  // Fills the bucket. Only the last `whole` checkpoints are real; opening any other checkpoint
  // would fail.
  void fill(std::int64_t whole) {
    for (std::int64_t batch = 1; batch <= kBatches; ++batch) {
      put(batch, batch > kBatches - whole ? file(batch) : "never looked into");
    }
    fake_.put_object("bucket/run/latest-rank0.pt.symlink", "run/" + RunFolder::name(kBatches));
  }
  // The command's answer, and the number of requests except those for pages of the listing.
  std::pair<Answer, std::size_t> ask(const std::vector<std::string>& arguments) {
    fake_.forget_log();
    Answer answer = run(arguments);
    std::size_t others = 0;
    for (const std::string& request : fake_.log()) {
      if (request.find("list-type=2") == std::string::npos) ++others;
    }
    return {std::move(answer), others};
  }

  testing::FakeS3 fake_;
  testing::S3Environment environment_{fake_};
};

TEST_F(S3CostTest, APlanOpensWhatItKeepsAndNothingThatItWouldRemove) {
  fill(3);
  const auto [answer, requests] = ask({"prune", kFolder, "--keep-last", "3"});
  EXPECT_EQ(answer.code, kDone) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("would keep 3, remove 9997"));
  EXPECT_THAT(answer.err, HasSubstr("9997 were not opened"));
  EXPECT_LE(requests, 12U);
}

TEST_F(S3CostTest, TheNewestOfAFolderIsInspectedByItsName) {
  fill(3);
  const auto [answer, requests] = ask({"inspect", kFolder});
  EXPECT_EQ(answer.code, kDone) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr(RunFolder::name(kBatches)));
  EXPECT_LE(requests, 20U);
  put(kBatches, "PK, and no more");
  EXPECT_THAT(ask({"inspect", kFolder}).first.out, HasSubstr(RunFolder::name(kBatches - 1)));
}

// Names do not say that a checkpoint is damaged. The server gives all checkpoints the same time.
TEST_F(S3CostTest, ADamagedOneAmongThoseToKeepEndsAPlan) {
  fill(6);
  put(kBatches - 1, "PK, and no more");
  const auto [answer, requests] = ask({"prune", kFolder, "--keep-last", "3", "--json"});
  EXPECT_EQ(answer.code, kDamaged) << answer.err;
  const json plan = json::parse(answer.out);
  EXPECT_EQ(plan["keep"], kBatches);
  EXPECT_EQ(plan["blocked_by"][0]["name"], RunFolder::name(kBatches - 1));
  EXPECT_LE(requests, 16U);
}

TEST_F(S3CostTest, RunsWhoseNamesAreOfOneFormAreJudgedApart) {
  for (const std::int64_t batch : {10, 20, 30, 40}) {
    put(batch, file(batch, batch < 40 ? "one" : "other"));
  }
  const json plan = json::parse(run({"prune", kFolder, "--keep-last", "2", "--json"}).out);
  EXPECT_EQ(plan["keep"], 3);
  EXPECT_EQ(plan["remove"], 1);
  EXPECT_EQ(plan["checkpoints"][0]["keep"], false);
}

TEST_F(S3CostTest, WithYesEachIsOpenedAndWhatIsOfAnotherKindIsJudgedApart) {
  for (const std::int64_t batch : {10, 20, 30, 40}) {
    put(batch, file(batch, "sample", batch == 20 ? "weights" : "full"));
  }
  const Answer plan = run({"prune", kFolder, "--keep-last", "1"});
  EXPECT_THAT(plan.out, HasSubstr("would keep 1, remove 3"));
  EXPECT_THAT(plan.err, HasSubstr("3 were not opened"));
  EXPECT_THAT(run({"prune", kFolder, "--keep-last", "1", "--verify"}).out,
              HasSubstr("would keep 2, remove 2"));
  EXPECT_THAT(run({"prune", kFolder, "--keep-last", "1", "--yes"}).out,
              HasSubstr("kept 2, removed 2"));
}

TEST_F(S3CostTest, NamesThatPromiseMoreThanTheyHoldEndAPlan) {
  const std::string held = file(45);
  for (std::int64_t batch = 45; batch <= kBatches; ++batch) {
    put(batch, held);
  }
  const auto [answer, requests] = ask({"prune", kFolder, "--keep-last", "1"});
  EXPECT_EQ(answer.code, kFailed);
  EXPECT_THAT(answer.err, HasSubstr("promise more than they hold"));
  EXPECT_THAT(answer.err, HasSubstr("holds epoch 4, batch 45"));
  EXPECT_LE(requests, 40U);
}

TEST_F(S3CostTest, AListingOpensNothingWhoseNameTellsEnough) {
  fill(1);
  const auto [answer, requests] = ask({"ls", kFolder, "--json"});
  EXPECT_EQ(answer.code, kDone);
  const json listing = json::parse(answer.out);
  EXPECT_EQ(listing["checkpoints"].size(), 10'000U);
  const json& newest = listing["checkpoints"].back();
  EXPECT_EQ(newest["name"], RunFolder::name(kBatches));
  EXPECT_EQ(newest["batch"], kBatches);
  EXPECT_EQ(newest["latest"], true);
  EXPECT_EQ(newest["bytes"], file(kBatches).size());
  EXPECT_EQ(newest["looked_into"], false);
  EXPECT_EQ(newest["sample"], nullptr);
  EXPECT_LE(requests, 2U);
}

TEST_F(S3CostTest, AListingOpensWhatHasAnotherName) {
  fake_.put_object("bucket/run/best.pt", file(12));
  fake_.put_object("bucket/run/notes.txt", "learning rate too high?");
  put(45, "never looked into");
  const json listing = json::parse(run({"ls", kFolder, "--json"}).out);
  ASSERT_EQ(listing["checkpoints"].size(), 2U);
  EXPECT_EQ(listing["checkpoints"][0]["batch"], 12);
  EXPECT_EQ(listing["checkpoints"][0]["looked_into"], true);
  EXPECT_EQ(listing["checkpoints"][1]["batch"], 45);
  EXPECT_EQ(listing["not_looked_into"], 2);
  EXPECT_THAT(run({"ls", kFolder, "--all"}).out, HasSubstr("DAMAGED"));
}

TEST_F(S3CostTest, OpeningACheckpointIsTwoRequestsAtMost) {
  put(1, file(1));
  fake_.forget_log();
  EXPECT_EQ(run({"inspect", std::string(kFolder) + "/" + RunFolder::name(1)}).code, kDone);
  EXPECT_LE(fake_.log().size(), 2U) << ::testing::PrintToString(fake_.log());
}

}  // namespace
}  // namespace cairn::cli
