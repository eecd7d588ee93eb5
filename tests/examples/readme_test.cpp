// The programs in README.md and docs/own_loop.md do what these pages say.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "testing/child_process.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

TEST(Readme, ProgramLeavesACheckpointAndFindsItselfFinished) {
  const testing::TempFolder temp;
  const fs::path before = fs::current_path();
  fs::current_path(temp.path());
  testing::ChildProcess first({CAIRN_README_PROGRAM});
  EXPECT_EQ(first.wait().exit_code, 0) << first.output();
  testing::ChildProcess second({CAIRN_README_PROGRAM});
  EXPECT_EQ(second.wait().exit_code, 0) << second.output();
  fs::current_path(before);
  EXPECT_EQ(fs::read_symlink(temp / "ckpt/diagonal/latest-rank0.pt"), "ep20-ba400-rank0.pt");
  EXPECT_TRUE(verify(temp / "ckpt/diagonal/latest-rank0.pt").ok());
}

TEST(OwnLoopPage, ProgramGoesOnFromTheNewestCheckpointWithTheSameBits) {
  const testing::TempFolder temp;
  const fs::path before = fs::current_path();
  fs::current_path(temp.path());
  testing::ChildProcess first({CAIRN_OWN_LOOP_PROGRAM});
  EXPECT_EQ(first.wait().exit_code, 0) << first.output();
  fs::rename(temp / "ckpt/step200.pt", temp / "whole.pt");
  testing::ChildProcess second({CAIRN_OWN_LOOP_PROGRAM});
  EXPECT_EQ(second.wait().exit_code, 0) << second.output();
  fs::current_path(before);
  EXPECT_NE(second.output().find("going on from ckpt/step150.pt"), std::string::npos)
      << second.output();
  EXPECT_TRUE(load(temp / "ckpt/step200.pt") == load(temp / "whole.pt"));
}

// Two runs of 1,000 steps, one of them killed after its first checkpoint.
TEST(OwnLoopPage, TheGanIsKilledAndEndsWithTheSameBits) {
  const testing::TempFolder temp;
  const fs::path before = fs::current_path();
  fs::current_path(temp.path());
  testing::ChildProcess killed({CAIRN_GAN_PROGRAM});
  EXPECT_TRUE(killed.wait_for_line("saved ckpt/gan/step")) << killed.output();
  killed.send(SIGKILL);
  killed.wait();
  testing::ChildProcess second({CAIRN_GAN_PROGRAM});
  EXPECT_EQ(second.wait().exit_code, 0) << second.output();
  EXPECT_NE(second.output().find("resumed from ckpt/gan/step"), std::string::npos)
      << second.output();
  fs::rename("ckpt", "killed");
  testing::ChildProcess whole({CAIRN_GAN_PROGRAM});
  EXPECT_EQ(whole.wait().exit_code, 0) << whole.output();
  fs::current_path(before);
  const Value expected = load(temp / "ckpt/gan/step1000.pt");
  const Value found = load(temp / "killed/gan/step1000.pt");
  for (const char* name : {"generator", "critic", "opt_g", "opt_c", "mean_loss", "step", "rng"})
    EXPECT_TRUE(found.at(name) == expected.at(name)) << name;
}

// The names in `text` that `pattern` finds, one per line.
std::vector<std::string> names_in(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, pattern)) names.push_back(match[1]);
  }
  return names;
}

TEST(TrainerPage, HasARowForEveryOptionInItsOrder) {
  const std::string header =
      testing::read_file(CAIRN_SOURCE_FOLDER "/include/cairn/train/options.h");
  const std::size_t begin = header.find("struct TrainerOptions");
  ASSERT_NE(begin, std::string::npos);
  const std::string fields = header.substr(begin, header.find("\n};", begin) - begin);
  const auto options = names_in(fields, std::regex(R"(^  [A-Za-z].* (\w+) =)"));
  EXPECT_GT(options.size(), 40U);
  EXPECT_EQ(names_in(testing::read_file(CAIRN_SOURCE_FOLDER "/docs/trainer.md"),
                     std::regex(R"(^\| `([a-z]\w+)` \|)")),
            options);
}

}  // namespace
}  // namespace cairn
