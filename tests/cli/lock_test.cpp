// `cairn lock`.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "checkpoint/folder/run_lock.h"
#include "io/machine.h"
#include "run_tool.h"
#include "testing/other_process.h"
#include "testing/temp_folder.h"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::OtherProcess;

class LockTest : public ::testing::Test {
 protected:
  void take(const std::string& run_name) {
    held_.push_back(take_run_lock(posix_file_system(),
                                  {.folder = folder_.path(), .run_name = run_name, .job = "job"}));
  }

  const testing::TempFolder folder_;
  std::vector<std::shared_ptr<void>> held_;
};

TEST_F(LockTest, ShowsWhoTrainsIntoAFolder) {
  EXPECT_THAT(run({"lock", folder_.path()}).err, HasSubstr("no run holds a lock in"));
  OtherProcess first([&] { take("run"); });
  EXPECT_THAT(run({"lock", folder_.path()}).out,
              AllOf(HasSubstr("run"), HasSubstr(std::to_string(first.pid())),
                    HasSubstr(node_name()), HasSubstr("lives")));
  const auto answer = nlohmann::json::parse(run({"lock", folder_.path(), "--json"}).out);
  EXPECT_EQ(answer.at("locks").at(0).at("pid"), first.pid());
  EXPECT_EQ(answer.at("locks").at(0).at("state"), "lives");
  EXPECT_EQ(answer.at("released"), false);
  first.kill();
  EXPECT_THAT(run({"lock", folder_.path()}).out, HasSubstr("ended"));
}

TEST_F(LockTest, ReleasesThoseOfTheDeadAndRefusesThoseOfTheLiving) {
  OtherProcess living([&] { take("living"); });
  OtherProcess dead([&] { take("dead"); });
  dead.kill();
  const Answer refused = run({"lock", folder_.path(), "--release"});
  EXPECT_EQ(refused.code, kBusy);
  EXPECT_THAT(refused.err, HasSubstr("process " + std::to_string(living.pid())));
  EXPECT_THAT(list_run_locks(posix_file_system(), folder_.path()), ::testing::SizeIs(2));
  EXPECT_EQ(run({"lock", folder_.path(), "--release", "--run-name", "dead"}).code, kDone);
  const auto left = list_run_locks(posix_file_system(), folder_.path());
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].holder.run_name, "living");
}

TEST_F(LockTest, SaysWhereThereAreNone) {
  EXPECT_EQ(run({"lock", folder_ / "missing"}).code, kNotFound);
}

}  // namespace
}  // namespace cairn::cli
