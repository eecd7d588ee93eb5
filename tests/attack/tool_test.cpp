// Runs the tool while file calls fail. The tool never ends by a signal, never calls a good
// checkpoint damaged, and never removes more than it was told to.
#include "cli/shell/tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <sstream>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/exit_code.h"

#include "checkpoint/plan/save_pipeline.h"
#include "child.h"
#include "io/file.h"
#include "storage/local/local_store.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn::attack {
namespace {

using cairn::testing::TempFolder;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Arguments = std::vector<std::string>;

class ToolInAFolder : public ::testing::Test {
 protected:
  ToolInAFolder() {
    SavePipeline pipeline({.store = local_store()});
    for (const std::int64_t batch : {10, 20, 30}) {
      pipeline.submit({.value = testing::sample_checkpoint(batch),
                       .path = folder_ / ("ep" + std::to_string(batch / 10) + "-ba" +
                                          std::to_string(batch) + "-rank0.pt"),
                       .latest = folder_ / "latest-rank0.pt",
                       .info = testing::sample_info(batch)});
    }
    pipeline.wait();
    save(testing::sample_checkpoint(10), folder_ / "packed.pt.gz");
    const std::string events = "events.out.tfevents.golden";
    testing::write_file(events_ / events,
                        testing::read_file(testing::kData + "/tensorboard/" + events));
  }

  // Runs the command with FOLDER, NEWEST and EVENTS replaced.
  ChildResult run_tool(Arguments arguments, const Plan& plan) const {
    for (std::string& argument : arguments) {
      if (argument == "FOLDER") argument = folder_.path();
      if (argument == "NEWEST") argument = folder_ / "ep3-ba30-rank0.pt";
      if (argument == "EVENTS") argument = events_.path();
    }
    return run_child(plan, [&](const Report& report) {
      std::ostringstream out;
      const int code = cli::run_tool(arguments, out, out);
      report.tell("output", out.str());
      return code;
    });
  }

  TempFolder folder_;
  TempFolder events_;  // for TensorBoard
};

class ToolUnderAttack : public ToolInAFolder, public ::testing::WithParamInterface<Arguments> {};

std::string name_of(const ::testing::TestParamInfo<Arguments>& each) { return each.param.front(); }

INSTANTIATE_TEST_SUITE_P(
    Commands, ToolUnderAttack,
    ::testing::Values(Arguments{"ls", "FOLDER"}, Arguments{"verify", "FOLDER"},
                      Arguments{"inspect", "NEWEST"}, Arguments{"dump", "NEWEST"},
                      Arguments{"resume", "--explain", "FOLDER"}, Arguments{"curves", "EVENTS"},
                      Arguments{"prune", "--keep-last", "4", "--yes", "FOLDER"}),
    name_of);

TEST_P(ToolUnderAttack, GoodCheckpointsAreNeverDamagedNorRemoved) {
  const auto names = posix_file_system().list(folder_.path());
  const bool reads_events = GetParam().back() == "EVENTS";
  Plan plan{.folder = reads_events ? events_.path() : folder_.path(), .calls = Calls::kReading};
  const ChildResult good = run_tool(GetParam(), plan);
  ASSERT_EQ(good.exit_code, 0) << good.text();
  ASSERT_GT(good.calls, 2U);
  for (const AttackKind deed : {AttackKind::kFail, AttackKind::kFailForever}) {
    for (const int error : {EACCES, EMFILE, ENOMEM, EIO, ESTALE}) {
      for (std::uint64_t at = 1; at <= good.calls; ++at) {
        SCOPED_TRACE("call " + std::to_string(at) +
                     (deed == AttackKind::kFail ? ": " : " and all after: ") +
                     std::strerror(error));
        plan.at = at;
        plan.deed = deed;
        plan.error = error;
        const ChildResult ended = run_tool(GetParam(), plan);
        EXPECT_EQ(ended.signal, 0) << ended.text();
        EXPECT_THAT(ended.exit_code, Not(AnyOf(kNegativeAnswer, kDamaged))) << ended.text();
        EXPECT_THAT(ended.lines("output"),
                    Not(AnyOf(HasSubstr("DAMAGED"), HasSubstr("is damaged"))));
        EXPECT_EQ(posix_file_system().list(folder_.path()), names) << ended.text();
        if (HasFailure()) return;  // one failure is enough to read
      }
    }
  }
}

// This holds for every call that may report that the server has forgotten the file.
TEST_F(ToolInAFolder, VerifySaysWhichFileTheServerDoesNotGive) {
  Plan plan{.folder = folder_.path(), .calls = Calls::kReading};
  const ChildResult good = run_tool({"verify", "NEWEST"}, plan);
  ASSERT_EQ(good.exit_code, 0) << good.text();
  plan.deed = AttackKind::kFail;
  plan.error = ESTALE;
  for (plan.at = 1; plan.at <= good.calls; ++plan.at) {
    const ChildResult ended = run_tool({"verify", "NEWEST"}, plan);
    EXPECT_EQ(ended.exit_code, kFailed) << ended.text();
    EXPECT_THAT(ended.lines("output"),
                AllOf(HasSubstr("ep3-ba30-rank0.pt"), HasSubstr("not read"),
                      HasSubstr("Stale file handle"), HasSubstr("does not deliver")))
        << "call " << plan.at;
  }
}

}  // namespace
}  // namespace cairn::attack
