#include "cli/shell/tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <streambuf>

#include <nlohmann/json.hpp>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/storage/stores.h"

#include "run_tool.h"
#include "storage/forwarding_store.h"
#include "testing/child_process.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::kData;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ToolTest, WrongUsageIsToldOnStderrAndHasExitCodeTwo) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, {"no-such-command"}, {"dump"}, {"dump", "--no-such-option"}}) {
    const Answer answer = run(arguments);
    EXPECT_EQ(answer.code, 2);
    EXPECT_EQ(answer.out, "");
    EXPECT_THAT(answer.err, StartsWith("cairn: "));
    EXPECT_THAT(answer.err, HasSubstr("--help"));
  }
}

TEST(ToolTest, AnUnknownCommandIsNamedWithTheOneThatWasMeant) {
  for (const auto& [word, meant] : std::vector<std::pair<std::string, std::string>>{
           {"prun", "prune"}, {"verfiy", "verify"}, {"list", "ls"}, {"cp", "copy"}}) {
    const std::vector<std::vector<std::string>> lines = {
        {word}, {word, "--help"}, {"--help", word}, {"--color", "never", "-q", word, "x.pt"}};
    for (const std::vector<std::string>& arguments : lines) {
      const Answer answer = run(arguments);
      EXPECT_EQ(answer.code, kFailed) << word;
      EXPECT_EQ(answer.out, "");
      EXPECT_THAT(answer.err, HasSubstr("there is no command \"" + word + "\"; did you mean \"" +
                                        meant + "\"?"));
    }
  }
  const Answer unlike = run({"frob"});  // lists the existing commands
  EXPECT_EQ(unlike.code, kFailed);
  EXPECT_THAT(unlike.err, HasSubstr("no command \"frob\": there are completion, convert, copy,"));
  EXPECT_EQ(run({"--color", "never", "--help"}).code, kDone);
}

TEST(ToolTest, AnUnknownOptionIsNamedWithTheOneThatWasMeant) {
  const Answer answer = run({"verify", "--ful", "x.pt"});
  EXPECT_EQ(answer.code, kFailed);
  EXPECT_THAT(answer.err, HasSubstr("--ful; did you mean --full? (see"));
  EXPECT_THAT(run({"ls", "--jsn", "."}).err, HasSubstr("did you mean --json?"));
  EXPECT_THAT(run({"ls", "--zzzzzz", "."}).err, Not(HasSubstr("did you mean")));
}

TEST(ToolTest, HelpAndVersionAreAnswers) {
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_THAT(run({"--help"}).out, HasSubstr("dump"));
  EXPECT_THAT(run({"dump", "--help"}).out, HasSubstr("PATH"));
  EXPECT_THAT(run({"--version"}).out, StartsWith("cairn "));
}

TEST(ToolTest, ErrorsSayWhatTheFileIsAndHaveTheirExitCodes) {
  const Answer missing = run({"dump", kData + "/no-such-file.pt"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("no-such-file.pt"));
  const Answer foreign =
      run({"convert", kData + "/torch-2.6/whole_module.pt", "--weights-only", "/nowhere/x.pt"});
  EXPECT_EQ(foreign.code, 5);
  EXPECT_THAT(foreign.err, HasSubstr("torch.nn.modules.linear.Linear"));
  const testing::TempFolder temp;
  testing::write_file(temp / "empty.pt", "");
  const Answer empty = run({"dump", temp / "empty.pt"});
  EXPECT_EQ(empty.code, 4);
  EXPECT_THAT(empty.err, HasSubstr("an empty file"));
}

TEST(ToolTest, WithJsonAnErrorIsAnObjectToo) {
  const Answer answer = run({"dump", "--json", kData + "/no-such-file.pt"});
  EXPECT_EQ(answer.code, 3);
  const auto object = nlohmann::json::parse(answer.out);
  EXPECT_EQ(object["exit_code"], 3);
  EXPECT_EQ(object["error_class"], "NotFoundError");
  EXPECT_THAT(object["error"].get<std::string>(), HasSubstr("no-such-file.pt"));
}

TEST(ToolTest, WithJsonWrongUsageIsAnObjectToo) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"ls", "--json"},
                                                    {"--json", "no-such-command"},
                                                    {"--json", "ls", "--no-such-option", "."}}) {
    const Answer answer = run(arguments);
    EXPECT_EQ(answer.code, 2);
    const auto object = nlohmann::json::parse(answer.out);
    EXPECT_EQ(object["exit_code"], 2);
    EXPECT_THAT(answer.err, HasSubstr(object["error"].get<std::string>()));
  }
}

TEST(ToolTest, NoAnswerHoldsThePasswordOfAPlace) {
  const testing::TempFolder temp;
  const auto store = memory_store();
  register_object_store("guarded", [&](const std::string&) { return store; });
  const std::string host = "guarded://user:SECRET@host/";
  const std::string run_folder = host + "run";
  const std::string file = run_folder + "/ep1-ba10-rank0.pt";
  save(testing::sample_checkpoint(10), "run/ep1-ba10-rank0.pt",
       {.info = testing::sample_info(10), .store = store});
  store->move_pointer("run/latest-rank0.pt", "run/ep1-ba10-rank0.pt");
  save(1, "run/damaged.pt", {.store = store});
  save(1, "other/1.pt", {.store = store});
  const std::string own = temp / "own.pt";
  save(Dict{{"w", 1}}, own);
  for (std::vector<std::string> arguments :
       {std::vector<std::string>{"inspect", file},
        {"inspect", "--tensors", "zzz", file},
        {"inspect", run_folder},
        {"extract", file, "zzz"},
        {"extract", own, "w", "--out", host + "w.pt"},
        {"extract", own, "w", "--out", file},
        {"convert", own, file},
        {"convert", own, host + "new.pt"},
        {"convert", file, host + "shards", "--weights-only", "--shard-size", "1000"},
        {"convert", file, host + "folder/"},
        {"convert", host + "absent.pt", own},
        {"copy", own, host + "copied/"},
        {"copy", own, file},
        {"copy", file, file},
        {"diff", file, host + "absent.pt"},
        {"diff", "--weights-only", host + "other/1.pt", file},
        {"dump", run_folder},
        {"ls", run_folder},
        {"ls", host + "absent"},
        {"prune", run_folder, "--keep-last", "1"},
        {"verify", file, host + "absent.pt"},
        {"verify", run_folder},
        {"resume", "--explain", run_folder},
        {"resume", "--explain", host + "other"},
        {"doctor", run_folder},
        {"ls", run_folder, file}}) {
    for (const bool as_json : {false, true}) {
      if (as_json) arguments.emplace_back("--json");
      const Answer answer = run(arguments);
      EXPECT_THAT(answer.out + answer.err, Not(HasSubstr("SECRET")))
          << arguments[0] << " " << arguments[1];
    }
  }
  EXPECT_THAT(run({"inspect", file}).out, StartsWith("guarded://host/run/ep1-ba10-rank0.pt\n"));
  EXPECT_EQ(run({"ls", run_folder}).code, kDone);
  EXPECT_THAT(run({"resume", "--explain", run_folder}).out,
              StartsWith("guarded://host/run/ep1-ba10-rank0.pt\n"));
}

// The files of the machine, except that the first shard of a model is cut off when the second shard
// is opened.
class CutOff final : public ForwardingStore {
 public:
  CutOff() : ForwardingStore(local_store()) {}
  bool may_be_far() const override { return true; }
  bool names_are_paths() const override { return false; }
  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    return under_->stat("/" + name, follow);
  }
  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    const std::size_t second = name.find("-00002-");
    if (second != std::string::npos) {
      std::string first = "/" + name;
      first[second + 6] = '1';
      std::filesystem::resize_file(first, 4096);  // after its header
    }
    return under_->open("/" + name);
  }
  ListPage list(const std::string& folder, const std::string& page) override {
    return under_->list("/" + folder, page);
  }
  std::optional<Pointer> read_pointer(const std::string&) override { return std::nullopt; }
};

TEST(ToolTest, NothingIsSaidOfWhatCouldNotBeRead) {
  const testing::TempFolder temp;
  register_object_store("cutoff", [](const std::string&) { return std::make_shared<CutOff>(); });
  const std::string zeros(100'000, '\0');
  const auto tensor = [&](std::int64_t size) {
    return make_tensor(DType::kUInt8, {size}, {as_bytes(zeros), nullptr});
  };
  save(Dict{{"a", tensor(100'000)}, {"b", tensor(100'000)}}, temp / "whole.pt");
  for (std::vector<std::string> arguments :
       {std::vector<std::string>{"inspect", "--stats"}, {"diff", temp / "whole.pt"}}) {
    for (const bool as_json : {false, true}) {
      std::filesystem::remove_all(temp / "shards");
      cairn::convert(temp / "whole.pt", temp / "shards", {.shard_bytes = 100'000});
      const std::string place = "cutoff://disk" + (temp / "shards");
      std::vector<std::string> all = arguments;
      all.push_back(place);
      if (as_json) all.emplace_back("--json");
      const Answer answer = run(all);
      // If the command opens the first shard again afterwards, that shard is damaged by then.
      EXPECT_THAT(answer.code, AnyOf(kFailed, kDamaged)) << answer.out;
      EXPECT_THAT(answer.err, AnyOf(HasSubstr("cannot read"), HasSubstr("the tensors take")));
      EXPECT_EQ(answer.out.empty(), !as_json) << answer.out;
      if (as_json) {
        EXPECT_TRUE(nlohmann::json::parse(answer.out).contains("error"));
      }
    }
  }
}

// A stream that accepts `limit` bytes and no more, like a pipe without a reader.
class ClosedPipe final : public std::streambuf {
 public:
  explicit ClosedPipe(std::size_t limit) : left_(limit) {}

 protected:
  int overflow(int byte) override {
    if (left_-- > 0) return byte;
    left_ = 0;
    errno = EPIPE;
    return traits_type::eof();
  }

 private:
  std::size_t left_;
};

TEST(ToolTest, AReaderThatHasSeenEnoughEndsTheWorkQuietly) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"dump", kData + "/torch-2.6/many.pt"},
        {"inspect", kData + "/torch-2.6/many.pt"},
        {"--help"}}) {
    ClosedPipe pipe(20);
    std::ostream out(&pipe);
    std::ostringstream err;
    EXPECT_EQ(run_tool(arguments, out, err), 2);
    EXPECT_EQ(err.str(), "");
  }
}

TEST(ToolTest, AsAProcessItSurvivesAClosedPipeAndAFullDevice) {
  const auto ends = [](const std::string& command) {
    testing::ChildProcess shell({"/bin/bash", "-c", command});
    EXPECT_EQ(shell.wait().exit_code, 0) << command << "\n" << shell.output();
    return shell.output();
  };
  const std::string dump = std::string(CAIRN_TOOL) + " dump " + kData + "/torch-2.6/rng_state.pt";
  EXPECT_EQ(ends("set -o pipefail; " + dump + " | true; [ ${PIPESTATUS[0]} -lt 3 ]"), "");
  EXPECT_THAT(ends(dump + " > /dev/full; [ $? = 8 ]"), HasSubstr("cannot write the answer"));
  EXPECT_THAT(ends(std::string(CAIRN_TOOL) + " --version"), StartsWith("cairn "));
}

}  // namespace
}  // namespace cairn::cli
