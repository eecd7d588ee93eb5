// The ResNet with MixUp and SWA is killed, started again, and ends with the bits of an undisturbed
// run.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "cairn/checkpoint/checkpoint.h"

#include "testing/child_process.h"
#include "testing/resumable_state.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

TEST(ResNetExample, IsKilledAndEndsWithTheSameBits) {
  const testing::TempFolder temp;
  const fs::path before = fs::current_path();
  fs::current_path(temp.path());
  testing::ChildProcess killed({CAIRN_RESNET_PROGRAM});
  EXPECT_TRUE(killed.wait_for_line("saved ckpt/resnet/ep1")) << killed.output();
  killed.send(SIGKILL);
  EXPECT_EQ(killed.wait().signal, SIGKILL) << killed.output();
  testing::ChildProcess second({CAIRN_RESNET_PROGRAM});
  EXPECT_EQ(second.wait().exit_code, 0) << second.output();
  EXPECT_NE(second.output().find("going on from"), std::string::npos) << second.output();
  const Value weights = load("weights.pt");
  const Value state = load("ckpt/resnet/latest-rank0.pt");
  fs::remove_all("ckpt");
  testing::ChildProcess whole({CAIRN_RESNET_PROGRAM});
  EXPECT_EQ(whole.wait().exit_code, 0) << whole.output();
  EXPECT_TRUE(load("weights.pt") == weights);
  EXPECT_TRUE(testing::resumable_state(load("ckpt/resnet/latest-rank0.pt")) ==
              testing::resumable_state(state));
  fs::current_path(before);
  const std::string begin = "test accuracy ";
  const std::size_t at = whole.output().find(begin);
  ASSERT_NE(at, std::string::npos) << whole.output();
  EXPECT_GT(std::stod(whole.output().substr(at + begin.size())), 0.5) << whole.output();
}

}  // namespace
}  // namespace cairn
