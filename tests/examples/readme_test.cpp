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

// A line such as "perplexity 31.2 after 36 batches".
double perplexity_in(const std::string& output) {
  const std::size_t at = output.find("perplexity ");
  return at == std::string::npos ? 0 : std::stod(output.substr(at + 11));
}

// Runs of 40 batches on the text of the license: one is killed after its first checkpoint, and one
// computes its layers twice.
TEST(Gpt2Example, IsKilledAndEndsWithTheSameWeightsInTransformersFiles) {
  const testing::TempFolder temp;
  const auto command = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words = {CAIRN_GPT2_PROGRAM,
                                      "--text",
                                      CAIRN_SOURCE_FOLDER "/LICENSE",
                                      "--save-folder",
                                      temp / (name + "-ckpt"),
                                      "--save-interval",
                                      "5ba",
                                      "--autoresume",
                                      "--out",
                                      temp / name};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  testing::ChildProcess killed(command("killed", {"--max-duration", "4ep"}));
  EXPECT_TRUE(killed.wait_for_line("saved ")) << killed.output();
  killed.send(SIGKILL);
  killed.wait();
  EXPECT_FALSE(fs::exists(temp / "killed"));
  testing::ChildProcess again(command("killed", {"--max-duration", "4ep"}));
  EXPECT_EQ(again.wait().exit_code, 0) << again.output();
  EXPECT_NE(again.output().find("going on from"), std::string::npos) << again.output();
  testing::ChildProcess whole(command("whole", {"--max-duration", "4ep"}));
  EXPECT_EQ(whole.wait().exit_code, 0) << whole.output();
  testing::ChildProcess recomputed(command("recomputed", {"--max-duration", "4ep", "--recompute"}));
  EXPECT_EQ(recomputed.wait().exit_code, 0) << recomputed.output();
  const std::string weights = testing::read_file(temp / "whole/model.safetensors");
  EXPECT_TRUE(testing::read_file(temp / "killed/model.safetensors") == weights);
  EXPECT_TRUE(testing::read_file(temp / "recomputed/model.safetensors") == weights);
  EXPECT_TRUE(verify(temp / "whole").ok());
  EXPECT_GT(perplexity_in(whole.output()), 1) << whole.output();
  EXPECT_LT(perplexity_in(whole.output()), 60) << whole.output();
  // A run that begins with these weights, and does not change them.
  testing::ChildProcess more(
      command("more", {"--from", temp / "whole", "--max-duration", "1ba", "--lr", "0"}));
  EXPECT_EQ(more.wait().exit_code, 0) << more.output();
  EXPECT_NEAR(perplexity_in(more.output()), perplexity_in(whole.output()), 1e-2) << more.output();
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
