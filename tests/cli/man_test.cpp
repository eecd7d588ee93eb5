#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include <nlohmann/json.hpp>

#include "cli/manual/app_tree.h"
#include "cli/manual/manual_pages.h"
#include "cli/shell/command.h"
#include "run_tool.h"
#include "testing/child_process.h"
#include "testing/temp_folder.h"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json pages() { return json::parse(run({"man", "--json"}).out)["pages"]; }

// The page as a terminal shows it, without bold and underline.
std::string shown(const std::string& page) {
  const testing::TempFolder folder;
  testing::write_file(folder / "page", page);
  testing::ChildProcess process(
      {"/usr/bin/groff", "-man", "-Tascii", "-P-cbou", "-ww", "-rLL=200n", folder / "page"});
  EXPECT_EQ(process.wait().exit_code, 0);
  return process.output();
}

TEST(ManTest, TheToolAndEveryCommandHaveAPage) {
  const json all = pages();
  EXPECT_EQ(all.size(), commands().size() + 1);
  for (const Command& command : commands()) {
    const std::string name = command.name;
    EXPECT_EQ(all["cairn-" + name + ".1"], run({"man", name}).out);
    EXPECT_THAT(all["cairn.1"].get<std::string>(), HasSubstr("cairn\\-" + name + " (1)"));
  }
  EXPECT_EQ(all["cairn.1"], run({"man"}).out);
  EXPECT_EQ(run({"man", "no-such-command"}).code, kFailed);
}

TEST(ManTest, GroffHasNothingToSayAboutThem) {
  if (!std::filesystem::exists("/usr/bin/groff")) GTEST_SKIP() << "groff is not installed";
  const json all = pages();
  for (const auto& [name, text] : all.items()) {
    const std::string page = shown(text);
    EXPECT_THAT(page, Not(HasSubstr("warning"))) << name;
    EXPECT_THAT(page, Not(HasSubstr("error:"))) << name;
    EXPECT_THAT(page, HasSubstr("EXIT STATUS")) << name;
  }
}

TEST(ManTest, APageShowsWhatTheHelpDoes) {
  if (!std::filesystem::exists("/usr/bin/groff")) GTEST_SKIP() << "groff is not installed";
  const std::string page = shown(run({"man", "prune"}).out);
  EXPECT_THAT(page, HasSubstr("cairn-prune - remove the checkpoints that no rule keeps"));
  EXPECT_THAT(page, HasSubstr("cairn prune [OPTION...] FOLDER"));
  EXPECT_THAT(page, HasSubstr("--keep-best METRIC[:N]"));
  EXPECT_THAT(page, HasSubstr("--mode auto|min|max"));
  EXPECT_THAT(page, HasSubstr("-q, --quiet"));
  EXPECT_THAT(page, HasSubstr("NAME.pin"));
}

TEST(ManTest, CharactersThatRoffTakesForItsOwnComeOutAsTheyAre) {
  if (!std::filesystem::exists("/usr/bin/groff")) GTEST_SKIP() << "groff is not installed";
  const std::string text = ".hidden 'quoted' `back` ~/x ^ a\\b --dash \"double\"";
  const CommandInfo tool{.name = "cairn",
                         .summary = "S.",
                         .commands = {{.name = "x", .summary = "sum", .explanation = text}}};
  EXPECT_THAT(shown(manual_pages(tool).at("cairn-x.1")), HasSubstr(text));
}

TEST(ManTest, ExitCodesAreThoseOfTheDocumentation) {
  const std::string document =
      testing::read_file(std::string(CAIRN_TEST_DATA) + "/../../docs/reference.md");
  const auto codes = [](const std::string& text, const std::regex& pattern) {
    std::vector<std::string> found;
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end;
         ++match) {
      found.push_back((*match)[1]);
    }
    return found;
  };
  // The page has those of a Trainer, too.
  const auto of_tool = codes(run({"man"}).out, std::regex("\\.B ([0-9]+)\n"));
  EXPECT_THAT(codes(document, std::regex("\\| ([0-9]+) \\| ")), ::testing::IsSupersetOf(of_tool));
  EXPECT_FALSE(of_tool.empty());
}

}  // namespace
}  // namespace cairn::cli
