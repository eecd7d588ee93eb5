// The program in README.md is the one that is compiled, and does what README.md says.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cairn/checkpoint/checkpoint.h"

#include "testing/child_process.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

TEST(Readme, ShowsTheProgramThatIsCompiled) {
  const std::string readme = testing::read_file(CAIRN_SOURCE_FOLDER "/README.md");
  const std::string program = testing::read_file(CAIRN_SOURCE_FOLDER "/examples/readme/main.cpp");
  ASSERT_FALSE(program.empty());
  EXPECT_NE(readme.find("```cpp\n" + program + "```"), std::string::npos)
      << "copy examples/readme/main.cpp into README.md";
}

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

}  // namespace
}  // namespace cairn
