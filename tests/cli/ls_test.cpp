#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <time.h>

#include <nlohmann/json.hpp>

#include "run_folder.h"
#include "run_tool.h"
#include "testing/environment_variable.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kData;
using ::testing::Not;

class LsTest : public ::testing::Test {
 protected:
  void SetUp() override { tzset(); }
  json list(const std::vector<std::string>& more = {}, int code = kDone) const {
    std::vector<std::string> arguments = {"ls", "--json", folder_.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Answer answer = run(arguments);
    EXPECT_EQ(answer.code, code) << answer.err;
    return json::parse(answer.out);
  }
  static std::vector<std::string> names(const json& listing) {
    std::vector<std::string> all;
    for (const json& row : listing["checkpoints"]) {
      all.push_back(row["name"]);
    }
    return all;
  }

  const testing::EnvironmentVariable zone_{"TZ", "UTC"};
  RunFolder folder_;
};

TEST_F(LsTest, TableShowsTheFurthestLastWithItsTags) {
  folder_.save(120);
  folder_.save(9);
  folder_.link("latest-rank0.pt", RunFolder::name(120));
  folder_.write(RunFolder::name(9) + ".pin", "");
  const Answer answer = run({"ls", folder_.path()});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_EQ(answer.err, "");
  EXPECT_THAT(answer.out,
              ::testing::MatchesRegex(
                  "TIME +EPOCH +BATCH +SIZE +KIND +CHECKED +NAME +TAGS\n"
                  "2026-01-01 12:09:00 +0 +9 +[0-9.]+ KiB +full +quick +ep0-ba9-rank0.pt +pinned\n"
                  "2026-01-01 14:00:00 +12 +120 +[0-9.]+ KiB +full +quick +ep12-ba120-rank0.pt +"
                  "latest\n"));
}

TEST_F(LsTest, OrderIsByPositionAndNotByNameOrTime) {
  folder_.save(100);
  folder_.save(20);
  folder_.set_time(RunFolder::name(100), RunFolder::start());
  EXPECT_THAT(names(list()), ElementsAre(RunFolder::name(20), RunFolder::name(100)));
}

TEST_F(LsTest, JsonSaysAllThatTheTableDoes) {
  folder_.save(25);
  folder_.link("latest-rank0.pt", RunFolder::name(25));
  const json listing = list();
  EXPECT_EQ(listing["folder"], folder_.path());
  EXPECT_EQ(listing["checked"], "quick");
  EXPECT_EQ(listing["passed_over"], 0);
  json row = listing["checkpoints"][0];
  EXPECT_EQ(row["bytes"], std::filesystem::file_size(folder_ / RunFolder::name(25)));
  row.erase("bytes");
  EXPECT_EQ(row, (json{{"name", "ep2-ba25-rank0.pt"},
                       {"path", folder_ / "ep2-ba25-rank0.pt"},
                       {"modified", "2026-01-01T12:25:00Z"},
                       {"kind", "full"},
                       {"format", "torch_zip"},
                       {"containers", json::array()},
                       {"run_name", "sample"},
                       {"epoch", 2},
                       {"batch", 25},
                       {"sample", 800},
                       {"token", 0},
                       {"latest", true},
                       {"pinned", false},
                       {"looked_into", true},
                       {"ok", true},
                       {"problem", nullptr}}));
}

TEST_F(LsTest, WhatIsNoCheckpointIsPassedOverWithACount) {
  folder_.save(10);
  folder_.write("notes.txt", "learning rate too high?");
  folder_.write("metrics.jsonl", "{}\n");
  folder_.write("ep1-ba10-rank0.pt.json", "{}");
  folder_.write(".cairn-tmp-ep2-ba20-rank0.pt-0123456789abcdef", "half of it");
  std::filesystem::create_directory(folder_ / "plots");
  const json listing = list();
  EXPECT_THAT(names(listing), ElementsAre(RunFolder::name(10)));
  EXPECT_EQ(listing["passed_over"], 4);
  EXPECT_THAT(run({"ls", folder_.path()}).err, HasSubstr("passed over 4"));
}

TEST_F(LsTest, CheckpointsOfPythonAreRecognisedByContent) {
  std::filesystem::copy(kData + "/composer-0.33/ema/ep1-ba8-rank0.pt", folder_ / "mine");
  std::filesystem::copy(kData + "/composer-0.33/containers/weights_only.pt", folder_ / "w.pt");
  std::filesystem::copy(kData + "/torch-2.6/many.pt", folder_ / "many.pt");
  const json listing = list();
  std::map<std::string, std::string> kinds;
  for (const json& row : listing["checkpoints"]) {
    kinds.emplace(row["name"], row["kind"]);
  }
  EXPECT_EQ(kinds, (std::map<std::string, std::string>{
                       {"many.pt", "value"}, {"mine", "full"}, {"w.pt", "weights"}}));
  EXPECT_EQ(listing["checkpoints"].back()["batch"], 8);
}

TEST_F(LsTest, ADamagedCheckpointIsListedWithTheReason) {
  folder_.save(10);
  folder_.save(20);
  folder_.damage(RunFolder::name(20), /*visibly=*/true);
  folder_.write("ep3-ba30-rank0.pt", "");
  const Answer answer = run({"ls", folder_.path()});
  EXPECT_EQ(answer.code, kDone);  // the command only lists, and that worked
  EXPECT_THAT(answer.out, HasSubstr("DAMAGED"));
  EXPECT_THAT(answer.out, HasSubstr("\nep3-ba30-rank0.pt: this is an empty file"));
  EXPECT_THAT(answer.out, HasSubstr("\nep2-ba20-rank0.pt: "));
  EXPECT_EQ(list()["checkpoints"][0]["kind"], nullptr);  // the empty checkpoint comes first
}

TEST_F(LsTest, VerifyFindsWhatTheQuickCheckCannot) {
  folder_.save(10);
  folder_.save(20);
  folder_.damage(RunFolder::name(20), /*visibly=*/false);
  EXPECT_EQ(list()["checkpoints"][1]["ok"], true);
  const json listing = list({"--verify"}, kNegativeAnswer);
  EXPECT_EQ(listing["checked"], "full");
  EXPECT_EQ(listing["checkpoints"][0]["ok"], true);
  EXPECT_EQ(listing["checkpoints"][1]["ok"], false);
  EXPECT_THAT(listing["checkpoints"][1]["problem"].get<std::string>(), HasSubstr("CRC-32"));
}

TEST_F(LsTest, AnEmptyFolderIsSaidSoAndAMissingOneIsNotFound) {
  const Answer empty = run({"ls", folder_.path()});
  EXPECT_EQ(empty.code, kNotFound);
  EXPECT_EQ(empty.out, "");
  EXPECT_THAT(empty.err, HasSubstr("no checkpoints in"));
  EXPECT_EQ(list({}, kNotFound)["checkpoints"], json::array());
  EXPECT_EQ(run({"ls", folder_ / "no-such-folder"}).code, kNotFound);
  folder_.save(1);
  EXPECT_EQ(run({"ls", folder_ / RunFolder::name(1)}).code, kFailed);
}

TEST_F(LsTest, NamesThatAreNoUtf8DoNotBreakTheJson) {
  folder_.save(10);
  std::filesystem::rename(folder_ / RunFolder::name(10), folder_ / "bad\xff.pt");
  EXPECT_EQ(names(list()).size(), 1U);
}

TEST_F(LsTest, LinksOfPythonAndLinksElsewhereAreUnderstood) {
  folder_.save(10);
  folder_.save(20);
  folder_.write("latest-rank0.pt.symlink", RunFolder::name(20));
  folder_.link("elsewhere.pt", "/no/such/file.pt");
  const json listing = list();
  EXPECT_EQ(listing["checkpoints"][0]["latest"], false);
  EXPECT_EQ(listing["checkpoints"][1]["latest"], true);
  EXPECT_EQ(listing["passed_over"], 0);
}

TEST_F(LsTest, OnlyTheNewestHundredAreOpenedUnlessAllAreAskedFor) {
  const auto stamp = [](std::int64_t batch) {
    return RunFolder::start() + std::chrono::minutes(batch);
  };
  // to open such a file would show that it is damaged
  for (std::int64_t batch = 1; batch <= 30; ++batch) {
    folder_.write(RunFolder::name(batch), "");
    folder_.set_time(RunFolder::name(batch), stamp(batch));
  }
  folder_.save(200);
  std::filesystem::copy(folder_ / RunFolder::name(200), folder_ / "original");
  for (std::int64_t batch = 102; batch < 200; ++batch) {
    std::filesystem::create_hard_link(folder_ / "original", folder_ / RunFolder::name(batch));
  }
  folder_.set_time("original", stamp(100));
  const json listing = list();
  EXPECT_EQ(listing["not_looked_into"], 30);
  ASSERT_EQ(listing["checkpoints"].size(), 130U);
  for (const json& row : listing["checkpoints"]) {
    const bool is_opened = row["looked_into"];
    EXPECT_EQ(is_opened, row["modified"] >= "2026-01-01T13:40:00Z") << row;
    EXPECT_EQ(row["ok"], is_opened ? json(true) : json());
  }
  EXPECT_EQ(listing["checkpoints"].back()["batch"], 200);
  const Answer answer = run({"ls", folder_.path()});
  EXPECT_THAT(answer.out, HasSubstr("not opened"));
  EXPECT_THAT(answer.err, HasSubstr("30 more are known by name only (--all"));
  EXPECT_EQ(list({"--all"})["not_looked_into"], 0);
  EXPECT_EQ(list({"--all"})["checkpoints"][0]["ok"], false);
  EXPECT_EQ(list({"--verify"}, kNegativeAnswer)["not_looked_into"], 0);
}

TEST_F(LsTest, NoNeighbourEndsTheListing) {
  folder_.save(10);
  folder_.link("long.pt", std::string(300, 'x'));
  folder_.link("loop.pt", "loop.pt");
  folder_.link("a.symlink", "/dev/zero");
  ASSERT_EQ(mkfifo((folder_ / "pipe.pt").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder_ / "pipe.symlink").c_str(), 0600), 0);
  folder_.write("sparse.pt", std::string(100, '\0'));
  std::filesystem::resize_file(folder_ / "sparse.pt", std::uintmax_t{8} << 40);
  const json listing = list();
  EXPECT_THAT(names(listing),
              ::testing::UnorderedElementsAre(RunFolder::name(10), "pipe.pt", "sparse.pt"));
  EXPECT_EQ(listing["checkpoints"].back()["ok"], true);
}

}  // namespace
}  // namespace cairn::cli
