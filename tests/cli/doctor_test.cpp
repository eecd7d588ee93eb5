#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "run_tool.h"
#include "testing/environment_variable.h"
#include "testing/temp_folder.h"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;

json probe(const json& answer, const std::string& name) {
  for (const json& one : answer["folder"]["probes"]) {
    if (one["name"] == name) return one;
  }
  return {};
}

TEST(DoctorTest, NamesWhatThisBuildReads) {
  const Answer answer = run({"doctor", "--json"});
  EXPECT_EQ(answer.code, kDone) << answer.out;
  const json found = json::parse(answer.out);
  EXPECT_THAT(found["formats"], Contains("torch_zip"));
  EXPECT_EQ(found["folder"], nullptr);
  EXPECT_EQ(found["ok"], true);
  EXPECT_EQ(found["clock_ok"], true);
  EXPECT_EQ(found["scratch_problem"], nullptr);
}

TEST(DoctorTest, TriesTheFolderAndLeavesNothingInIt) {
  const testing::TempFolder folder;
  const Answer answer = run({"doctor", "--json", folder.path()});
  EXPECT_EQ(answer.code, kDone) << answer.out;
  const json found = json::parse(answer.out);
  for (const char* name : {"create", "sync", "sync_folder", "map", "rename"}) {
    EXPECT_EQ(probe(found, name)["works"], true) << name;
    EXPECT_EQ(probe(found, name)["needed"], true) << name;
  }
  for (const char* name :
       {"rename_noreplace", "symlink", "lock", "unnamed_file", "direct_io", "case"}) {
    EXPECT_EQ(probe(found, name)["needed"], false) << name;
  }
  EXPECT_GT(found["folder"]["free_bytes"], 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DoctorTest, AnUnwritableFolderIsANegativeAnswer) {
  if (geteuid() == 0 && !std::filesystem::exists("/proc/self")) GTEST_SKIP() << "needs /proc";
  // not even root can write there
  const json found = json::parse(run({"doctor", "--json", "/proc"}).out);
  EXPECT_EQ(found["ok"], false);
  EXPECT_EQ(probe(found, "create")["works"], false);
  const Answer answer = run({"doctor", "/proc"});
  EXPECT_EQ(answer.code, kNegativeAnswer);
  EXPECT_THAT(answer.out, HasSubstr("MISSING"));
}

TEST(DoctorTest, APlaceWithoutAStoreIsRefusedAsEverywhere) {
  const Answer answer = run({"doctor", "foo://bucket"});
  EXPECT_EQ(answer.code, run({"inspect", "foo://bucket"}).code);
  EXPECT_THAT(answer.err, HasSubstr("there is no store for foo://, only for "));
}

TEST(DoctorTest, LimitsOfTheProcessAreSeen) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const json found = json::parse(run({"doctor", "--json"}).out);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(found["file_size_limit"], 1 << 20);
}

TEST(DoctorTest, NamesTheBlasAndWhatItsThreadsAreChosenBy) {
  const testing::EnvironmentVariable threads("OMP_NUM_THREADS", "3");
  const json found = json::parse(run({"doctor", "--json"}).out);
  EXPECT_EQ(found["threads"], "OMP_NUM_THREADS=3");
  const Answer answer = run({"doctor"});
  EXPECT_THAT(answer.out, HasSubstr("BLAS"));
  if (found["blas"].is_null()) {
    EXPECT_THAT(answer.out, HasSubstr("libtorch has its own"));
    return;
  }
  EXPECT_THAT(answer.out, HasSubstr(found["blas"]["name"].get<std::string>()));
  EXPECT_TRUE(std::filesystem::exists(found["blas"]["path"].get<std::string>()));
  EXPECT_EQ(answer.out.find("SLOW") != std::string::npos, found["blas"]["slow"].get<bool>());
}

TEST(DoctorTest, AMissingFolderIsNotFound) {
  EXPECT_EQ(run({"doctor", "/no/such/folder"}).code, kNotFound);
}

TEST(DoctorTest, TheTableSaysWhatEachThingIsFor) {
  const testing::TempFolder folder;
  const Answer answer = run({"doctor", folder.path()});
  EXPECT_THAT(answer.out, HasSubstr("a file survives a power cut"));
  EXPECT_THAT(answer.out, HasSubstr(folder.path() + ": "));
  EXPECT_EQ(answer.err, "");
}

}  // namespace
}  // namespace cairn::cli
