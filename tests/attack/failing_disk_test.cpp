// Checkpoints on a disk that cannot read some of its blocks. The error names the file and the
// position, and no signal ends the process. A run resumes from the previous checkpoint, and never
// starts again from the beginning.
#include "failing_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "cairn/exit_code.h"

#include "attacked_run.h"
#include "cli/shell/tool.h"

namespace cairn::attack {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Ne;
using ::testing::Not;

const Variant kWaiting = {"waiting", [](TrainerOptions& o) { o.save_async = false; }};
const Variant kHalf = {"half", [](TrainerOptions& o) {
                         o.save_async = false;
                         o.max_duration = "6ba";
                       }};

enum class Where : std::uint8_t { kBeginning, kMiddle, kEnd };

const char* name_of(Where where) {
  return where == Where::kBeginning ? "Beginning" : where == Where::kMiddle ? "Middle" : "End";
}
void PrintTo(Where where, std::ostream* out) { *out << name_of(where); }  // NOLINT: gtest's name

class UnreadableBlock : public ::testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    if (const auto missing = FailingDisk::missing()) GTEST_SKIP() << *missing;
    disk_ = std::make_unique<FailingDisk>(CAIRN_FAILING_DISK_SERVER);
    ASSERT_EQ(run(disk_->folder(), kHalf, {}).exit_code, 0);
    newest_ = disk_->folder() + "/run/ep1-ba6-rank0.pt";
    older_ = disk_->folder() + "/run/ep0-ba4-rank0.pt";
    ASSERT_TRUE(fs::exists(newest_) && fs::exists(older_));
  }
  void make_unreadable(const std::string& path) {
    const std::uint64_t size = fs::file_size(path);
    disk_->fail(path, GetParam() == Where::kBeginning ? 0
                      : GetParam() == Where::kMiddle  ? size / 2
                                                      : size - 1);
  }
  static ChildResult run_tool(const std::vector<std::string>& arguments) {
    return run_child({}, [&](const Report& report) {
      std::ostringstream out;
      const int code = cli::run_tool(arguments, out, out);
      report.tell("output", out.str());
      return code;
    });
  }

  std::unique_ptr<FailingDisk> disk_;
  std::string newest_;
  std::string older_;
};

INSTANTIATE_TEST_SUITE_P(Places, UnreadableBlock,
                         ::testing::Values(Where::kBeginning, Where::kMiddle, Where::kEnd),
                         [](const auto& each) { return name_of(each.param); });

TEST_P(UnreadableBlock, InTheNewestCheckpointTheRunGoesOnFromTheOneBefore) {
  make_unreadable(newest_);
  const Outcome again = run(disk_->folder(), kWaiting, {});
  EXPECT_EQ(again.signal, 0) << again.text();
  EXPECT_EQ(again.began, 4) << again.text();
  EXPECT_THAT(again.lines("message"), HasSubstr(newest_ + ": cannot read"));
  EXPECT_EQ(again.exit_code, 0) << again.text();
  const testing::TempFolder elsewhere;
  EXPECT_EQ(again.weights, run(elsewhere.path(), kWaiting, {}).weights);
}

TEST_P(UnreadableBlock, InEveryCheckpointTheRunStopsAndChangesNothing) {
  make_unreadable(newest_);
  make_unreadable(older_);
  const Outcome again = run(disk_->folder(), kWaiting, {});
  EXPECT_EQ(again.signal, 0) << again.text();
  EXPECT_EQ(again.exit_code, 2) << again.text();
  EXPECT_EQ(again.began, std::nullopt) << again.text();
  EXPECT_THAT(again.error, HasSubstr("cannot read"));
  EXPECT_TRUE(fs::exists(newest_) && fs::exists(older_));
}

TEST_P(UnreadableBlock, TheToolSaysSoAndTakesNothingForDamaged) {
  make_unreadable(newest_);
  const std::string folder = disk_->folder() + "/run";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ls", folder},
        {"ls", "--verify", folder},
        {"verify", newest_},
        {"verify", folder},
        {"inspect", newest_},
        {"inspect", "--stats", newest_},
        {"dump", newest_},
        {"diff", newest_, older_},
        {"prune", "--keep-last", "1", "--yes", folder},
        {"convert", newest_, disk_->folder() + "/copy.pt"}}) {
    SCOPED_TRACE(arguments[0] + " " + arguments[1]);
    const ChildResult ended = run_tool(arguments);
    EXPECT_EQ(ended.signal, 0) << ended.text();
    EXPECT_THAT(ended.exit_code, Not(AnyOf(kDamaged, -1))) << ended.text();
    EXPECT_THAT(ended.lines("output"), Not(HasSubstr("DAMAGED")));
    EXPECT_TRUE(fs::exists(newest_) && fs::exists(older_)) << ended.text();
  }
  EXPECT_NE(run_tool({"verify", newest_}).exit_code, 0);
  EXPECT_THAT(run_tool({"verify", newest_}).lines("output"), HasSubstr("cannot read"));
}

}  // namespace
}  // namespace cairn::attack
