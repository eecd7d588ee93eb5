// Every hostile file gets its typed error. The reading process may not write, run programs or
// connect, and its memory grows no more than the file's size justifies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>

#include "testing/child_process.h"
#include "testing/temp_folder.h"
#include "tests/hostile/corpus.h"

namespace cairn::testing {
namespace {

struct Outcome {
  // as hostile_reader prints it; "died": a signal ended the reader, and the message has the signal
  std::string answer;
  long kib = 0;
  std::string message;
};

std::size_t write_case(const std::string& path, const HostileCase& c) {
  std::size_t bytes = 0;
  for (const auto& [name, content] : c.files) {
    const std::string file = name.empty() ? path : path + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    write_file(file, content);
    bytes += content.size();
  }
  return bytes;
}

// Reads all paths. Starts the reader again after a path that killed it.
std::vector<Outcome> outcomes(const std::vector<std::string>& paths, const TempFolder& temp) {
  std::vector<Outcome> all;
  while (all.size() < paths.size()) {
    std::string list;
    for (std::size_t i = all.size(); i < paths.size(); ++i) {
      list += paths[i] + "\n";
    }
    write_file(temp / "list", list);
    ChildProcess reader({CAIRN_HOSTILE_READER, temp / "list"});
    const ChildProcess::Ended ended = reader.wait();
    std::istringstream lines(reader.output());
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("end ")) continue;
      std::istringstream words(line.substr(4));
      Outcome& outcome = all.emplace_back();
      words >> outcome.answer >> outcome.kib;
      std::getline(words, outcome.message);
    }
    if (ended.signal == 0 && ended.exit_code == 0) break;
    all.push_back({"died", 0,
                   "signal " + std::to_string(ended.signal) + ", exit code " +
                       std::to_string(ended.exit_code) + ": " +
                       reader.output().substr(reader.output().rfind("begin "))});
  }
  return all;
}

const char* pattern_of(Answer answer) {
  switch (answer) {
    case Answer::kRead:
      return "read";
    case Answer::kCorrupt:
      return "corrupt";
    case Answer::kUnsupported:
      return "unsupported";
    case Answer::kAny:
      return "read|corrupt|unsupported|not_found";
  }
  return "";
}

// The limit that SECURITY.md promises. There is no limit with the sanitizers, which use memory of
// their own.
long most_kib([[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::numeric_limits<long>::max();
#else
  return 64L * 1024 + 16 * static_cast<long>(bytes) / 1024;
#endif
}

using Generator = std::vector<HostileCase> (*)();

struct Format {
  const char* name;
  Generator generate;
};

void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

class HostileTest : public ::testing::TestWithParam<Format> {};

// Returns how a process ended that tried to create a file in the sandbox.
ChildProcess::Ended try_to_break_out() {
  ChildProcess reader({CAIRN_HOSTILE_READER, "--break-out"});
  return reader.wait();
}

constexpr int kNoSandbox = 77;  // hostile_reader's exit code

TEST_P(HostileTest, HasOneRightAnswerInASandbox) {
  if (try_to_break_out().exit_code == kNoSandbox) GTEST_SKIP() << "no seccomp filters here";
  const TempFolder temp;
  const std::vector<HostileCase> cases = GetParam().generate();
  std::set<std::string> names;
  std::vector<std::string> paths;
  std::vector<std::size_t> sizes;
  for (const HostileCase& c : cases) {
    EXPECT_TRUE(names.insert(c.name).second) << "two cases named " << c.name;
    paths.push_back(temp / ("case" + std::to_string(paths.size())));
    sizes.push_back(write_case(paths.back(), c));
  }
  const std::vector<Outcome> all = outcomes(paths, temp);
  ASSERT_EQ(all.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name + ": " + all[i].message);
    EXPECT_THAT(all[i].answer, ::testing::MatchesRegex(pattern_of(cases[i].answer)));
    EXPECT_LE(all[i].kib, most_kib(sizes[i]));
    if (all[i].answer != "read") {
      EXPECT_NE(all[i].message.find(paths[i]), std::string::npos) << "the file is not named";
    }
  }
  RecordProperty("cases", static_cast<int>(cases.size()));
  std::printf("%zu cases\n", cases.size());
}

INSTANTIATE_TEST_SUITE_P(
    Formats, HostileTest,
    ::testing::Values(Format{"container", hostile_containers}, Format{"dcp", hostile_dcp},
                      Format{"dtensor", hostile_dtensors}, Format{"pickle", hostile_pickles},
                      Format{"safetensors", hostile_safetensors}, Format{"sample", hostile_samples},
                      Format{"script", hostile_scripts}, Format{"zip", hostile_zips}),
    [](const auto& test) { return test.param.name; });

#if !defined(__SANITIZE_THREAD__)  // takes minutes and finds nothing: the reader has one thread
INSTANTIATE_TEST_SUITE_P(LargeFormats, HostileTest,
                         ::testing::Values(Format{"memory", hostile_memory}),
                         [](const auto& test) { return test.param.name; });
#endif

TEST(SandboxTest, KillsAProcessThatCreatesAFile) {
  const ChildProcess::Ended ended = try_to_break_out();
  if (ended.exit_code == kNoSandbox) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(ended.signal, SIGSYS);
}

}  // namespace
}  // namespace cairn::testing
