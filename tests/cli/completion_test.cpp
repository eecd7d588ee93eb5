// Each shell parses its completion script. The script for bash is also used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/shell/command.h"
#include "run_tool.h"
#include "testing/child_process.h"
#include "testing/temp_folder.h"

namespace cairn::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

bool is_installed(const std::string& shell) {
  return std::filesystem::exists("/usr/bin/" + shell) || std::filesystem::exists("/bin/" + shell);
}

class CompletionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* shell : {"bash", "zsh", "fish"}) {
      testing::write_file(folder_ / shell, run({"completion", shell}).out);
    }
  }
  // Expects that the shell finds no error in its script. The shell does not run the script.
  void expect_parsed_by(const std::string& shell) const {
    testing::ChildProcess process({"/usr/bin/env", shell, "-n", folder_ / shell});
    EXPECT_EQ(process.wait().exit_code, 0) << process.output();
    EXPECT_EQ(process.output(), "");
  }
  // The completions that bash offers for the last of the words, in the folder work().
  std::vector<std::string> offers(const std::vector<std::string>& words) const {
    std::string line = "cd '" + work() + "' && source '" + (folder_ / "bash") + "' && COMP_WORDS=(";
    for (const std::string& word : words) {
      line += "'" + word + "' ";
    }
    line += "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _cairn; printf '%s\\n' \"${COMPREPLY[@]}\"";
    testing::ChildProcess process({"/usr/bin/env", "bash", "-c", line});
    EXPECT_EQ(process.wait().exit_code, 0) << process.output();
    std::istringstream answer(process.output());
    std::vector<std::string> found;
    for (std::string offer; std::getline(answer, offer);) {
      if (!offer.empty()) found.push_back(offer);
    }
    return found;
  }
  std::string work() const {
    std::filesystem::create_directories(folder_ / "work/ckpt");
    testing::write_file(folder_ / "work/ep 1.pt", "");
    return folder_ / "work";
  }

  testing::TempFolder folder_;
};

TEST_F(CompletionTest, EveryShellParsesItsScript) {
  expect_parsed_by("bash");
  for (const char* shell : {"zsh", "fish"}) {
    if (is_installed(shell)) expect_parsed_by(shell);
  }
}

TEST_F(CompletionTest, BashOffersCommands) {
  EXPECT_THAT(offers({"cairn", "pr"}), ElementsAre("prune"));
  std::vector<std::string> all;
  for (const Command& command : commands()) {
    all.emplace_back(command.name);
  }
  EXPECT_EQ(offers({"cairn", ""}), all);
}

TEST_F(CompletionTest, BashOffersOptionsOfTheCommandAndOfTheTool) {
  EXPECT_THAT(offers({"cairn", "prune", "--keep-w"}),
              UnorderedElementsAre("--keep-weekly", "--keep-within"));
  EXPECT_THAT(offers({"cairn", "ls", "--"}), Contains("--verify"));
  EXPECT_THAT(offers({"cairn", "ls", "--"}), Contains("--json"));
  EXPECT_THAT(offers({"cairn", "ls", "--keep"}), IsEmpty());
  EXPECT_THAT(offers({"cairn", "--v"}), ElementsAre("--version"));
}

TEST_F(CompletionTest, BashOffersTheValuesOfAnOption) {
  EXPECT_THAT(offers({"cairn", "--color", "a"}), UnorderedElementsAre("auto", "always"));
  EXPECT_THAT(offers({"cairn", "--color", "=", "ne"}), ElementsAre("never"));
  EXPECT_THAT(offers({"cairn", "--color", "="}), UnorderedElementsAre("auto", "always", "never"));
  EXPECT_THAT(offers({"cairn", "prune", "--mode", "m"}), UnorderedElementsAre("min", "max"));
  EXPECT_THAT(offers({"cairn", "prune", "--keep-last", ""}), IsEmpty());
}

TEST_F(CompletionTest, BashOffersFilesFoldersAndShells) {
  EXPECT_THAT(offers({"cairn", "dump", "ep"}), ElementsAre("ep 1.pt"));
  EXPECT_THAT(offers({"cairn", "ls", ""}), ElementsAre("ckpt"));
  EXPECT_THAT(offers({"cairn", "completion", ""}), ElementsAre("bash", "zsh", "fish"));
}

TEST_F(CompletionTest, EveryCommandAndOptionIsInEveryScript) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = testing::read_file(folder_ / shell);
    for (const Command& command : commands()) {
      EXPECT_THAT(script, HasSubstr(command.name)) << shell;
    }
    EXPECT_THAT(script, HasSubstr("keep-best")) << shell;
  }
}

TEST_F(CompletionTest, WithJsonTheScriptIsAString) {
  const auto object = nlohmann::json::parse(run({"--json", "completion", "fish"}).out);
  EXPECT_EQ(object["script"], testing::read_file(folder_ / "fish"));
  EXPECT_EQ(run({"completion", "tcsh"}).code, kFailed);
}

}  // namespace
}  // namespace cairn::cli
