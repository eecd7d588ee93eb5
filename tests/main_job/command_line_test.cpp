// The command line of `digits`, and its messages when something is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "testing/child_process.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::ChildProcess;
using testing::TempFolder;

const std::string kCheckpoint = CAIRN_TEST_DATA "/composer-0.33/ema/ep0-ba3-rank0.pt";

struct Answer {
  int exit_code;
  std::string output;
};

Answer digits(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {CAIRN_DIGITS, "--no-progress-bar"});
  ChildProcess program(flags);
  const int exit_code = program.wait().exit_code;
  return {exit_code, program.output()};
}

void expect_error(const Answer& answer, int exit_code, const std::string& saying) {
  EXPECT_EQ(answer.exit_code, exit_code) << answer.output;
  const std::size_t error = answer.output.find("digits: error: ");
  ASSERT_NE(error, std::string::npos) << answer.output;
  EXPECT_NE(answer.output.find(saying, error), std::string::npos) << answer.output;
}

// Fields of TrainerOptions that are no text, number or switch.
const std::set<std::string> kObjects = {
    "model",           "train_dataloader", "algorithms", "optimizers",        "schedulers",
    "eval_dataloader", "callbacks",        "loggers",    "load_object_store", "save_object_store",
    "profiler"};

TEST(CommandLine, HasAFlagForEveryTextNumberAndSwitchOfTrainerOptions) {
  const std::string header =
      testing::read_file(CAIRN_SOURCE_FOLDER "/include/cairn/train/options.h");
  const std::size_t begin = header.find("struct TrainerOptions {");
  const std::string fields = header.substr(begin, header.find("\n};", begin) - begin);
  const std::string help = digits({"--help"}).output;
  const std::regex field(R"(\n  [A-Za-z][^\n=/]* ([a-z_]+) =)");
  std::size_t flags = 0;
  for (std::sregex_iterator it(fields.begin(), fields.end(), field), end; it != end; ++it) {
    std::string name = (*it)[1];
    if (kObjects.contains(name)) continue;
    std::ranges::replace(name, '_', '-');
    EXPECT_NE(help.find("--" + name), std::string::npos) << "no flag --" << name;
    ++flags;
  }
  EXPECT_GT(flags, 35U) << "the pattern no longer finds the fields";
}

TEST(CommandLine, UnknownFlagIsWrongUsage) {
  expect_error(digits({"--save-foldr", "x"}), 2, "--save-foldr");
}

TEST(CommandLine, BadTimeNamesTheFlag) {
  expect_error(digits({"--max-duration", "soon"}), 2, "--max-duration");
}

TEST(CommandLine, ConflictingOptionsAreNamedTogether) {
  const Answer answer = digits({"--autoresume", "--save-max-pending", "0"});
  expect_error(answer, 2, "save_max_pending");
  expect_error(answer, 2, "save_folder");
}

TEST(CommandLine, AFieldOfParallelismConfigThatThereIsNotIsNamedWithThoseThatThereAre) {
  const Answer answer = digits({"--parallelism-config", "state_dict=sharded"});
  expect_error(answer, 2, "state_dict=sharded");
  expect_error(answer, 2, "state_dict_type");
  expect_error(digits({"--parallelism-config", "auto_wrap=maybe"}), 2, "auto_wrap=maybe");
}

TEST(CommandLine, MissingCheckpointIsNotFound) {
  expect_error(digits({"--load-path", "/no/such/file.pt"}), 3, "/no/such/file.pt");
}

TEST(CommandLine, DamagedCheckpointIsDamaged) {
  const TempFolder folder;
  std::string bytes = testing::read_file(kCheckpoint);
  bytes[bytes.size() / 2] ^= 1;
  testing::write_file(folder / "damaged.pt", bytes);
  expect_error(digits({"--load-path", folder / "damaged.pt"}), 4, "damaged.pt");
}

TEST(CommandLine, CheckpointOfAnotherModelDoesNotFit) {
  expect_error(digits({"--load-path", kCheckpoint}), 5, "module.conv1.weight");
}

TEST(CommandLine, FileInPlaceOfTheSaveFolderIsAFailure) {
  const TempFolder folder;
  testing::write_file(folder / "file", "");
  expect_error(digits({"--save-folder", folder / "file"}), 2, "file");
}

}  // namespace
}  // namespace cairn
