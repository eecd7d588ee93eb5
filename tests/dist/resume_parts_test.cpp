// Starts a run again on a machine that has only its parts of sharded checkpoints, and records what
// happens. The table tests/data/traces/resuming_parts.txt has one line for each combination of
//   number of ranks x form of the run x state of the two checkpoints
// The Trainer must do what `cairn resume --explain` says. Real processes on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "job.h"
#include "testing/child_process.h"
#include "testing/golden_table.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using cairn::testing::ChildProcess;
using cairn::testing::GoldenTable;
using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::operator+;
using cairn::testing::part;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using ::testing::Each;

using Words = std::vector<std::string>;

// 4 batches per epoch on 2 ranks, 8 on one.
const Words kPartsRun = {"train", "float=1", "batch=4", "samples=32", "interval=1ep", "may_fail=1"};

struct StartForm {
  std::string text;
  Words words;
};

const std::vector<StartForm> kStartForms = {
    {"one file", {}},
    {"sharded folder", {"shard=FULL_SHARD", "state=sharded"}},
    {"tar of each rank", {"deepspeed=3"}},
};

// How much of a checkpoint one machine has.
enum class Has { kNothing, kItsPart, kAll, kAllButOne };

struct PartsState {
  std::string text;
  Has older;
  Has newest;
  int machine = 0;  // The machine with the parts. The first machine has the metadata.
};

const std::vector<PartsState> kPartsStates = {
    {"both in parts", Has::kItsPart, Has::kItsPart},
    {"both in parts on the other machine", Has::kItsPart, Has::kItsPart, 1},
    {"newest in parts, older whole", Has::kAll, Has::kItsPart},
    {"newest in parts on the other machine, older whole", Has::kAll, Has::kItsPart, 1},
    {"newest whole, older in parts", Has::kItsPart, Has::kAll},
    {"newest gone, older in parts", Has::kItsPart, Has::kNothing},
    {"newest without one file, older whole", Has::kAll, Has::kAllButOne},
    {"both without one file", Has::kAllButOne, Has::kAllButOne},
};

// Two machines without a common file system have saved two epochs. Each machine has saved its parts
// in a folder that is named by the machine's number.
class ResumeParts : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    Job job(std::vector{0, 1}, in_turn({kPartsRun + kStartForms[1].words +
                                        Words{"machines=1", "duration=2ep", "folder=" + saved_}}));
    ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  }

  // Copies files of the saved checkpoint to `to`. The first machine is copied last, because its
  // manifest is that of the whole checkpoint.
  void bring(const std::string& checkpoint, Has has, int machine, const std::string& to) const {
    for (const int from : {1, 0}) {
      const bool is_there = has == Has::kItsPart ? from == machine : has != Has::kNothing;
      if (!is_there) continue;
      fs::copy(saved_ + "/" + std::to_string(from) + "/" + checkpoint, to + "/" + checkpoint,
               fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
    if (has == Has::kAllButOne) fs::remove(to + "/" + checkpoint + "/__1_0.distcp");
  }

  std::string lay(const PartsState& state, std::size_t number) const {
    const std::string to = folder_ / std::to_string(number);
    fs::create_directories(to);
    bring("ep1-ba4", state.older, state.machine, to);
    bring("ep2-ba8", state.newest, state.machine, to);
    const std::string target = state.newest == Has::kNothing ? "ep1-ba4" : "ep2-ba8";
    fs::create_symlink(target, to + "/latest-rank0.pt");
    return to;
  }

  const TempFolder folder_;
  const std::string saved_ = folder_ / "saved";
};

std::string name_in(const std::string& folder, const std::string& path) {
  return path.starts_with(folder + "/") ? path.substr(folder.size() + 1) : path;
}

// Names the refused checkpoint if other machines have parts of it. Otherwise returns the whole
// text.
std::string refusal_of(const std::string& folder, const std::string& text) {
  const std::size_t end = text.find(" has the files of one machine");
  if (end == std::string::npos || !text.starts_with(folder + "/")) return "refused: " + text;
  return "refused for the parts of " + text.substr(folder.size() + 1, end - folder.size() - 1);
}

std::string said_by_tool(const std::string& folder) {
  ChildProcess tool({CAIRN_PROGRAM, "resume", "--explain", folder, "--run-name", "job", "--json"});
  tool.wait();
  const std::size_t begin = tool.output().find('{');
  if (begin == std::string::npos) return tool.output();
  const auto said = nlohmann::json::parse(tool.output().substr(begin));
  if (!said.at("refusal").is_null()) return refusal_of(folder, said.at("refusal"));
  if (said.at("path").is_null()) return "begins at batch 0";
  return "begins at batch " + std::to_string(said.at("batch").get<int>()) + " from " +
         name_in(folder, said.at("path"));
}

std::string trainer_result(const std::string& folder, const std::string& output) {
  std::string error = rest_of_line(output, "error: ");
  for (const std::string prefix : {"rank 0: ", "autoresume: "}) {
    if (error.starts_with(prefix)) error = error.substr(prefix.size());
  }
  if (!error.empty()) return refusal_of(folder, error);
  const std::string path = rest_of_line(output, "autoresume: going on from ");
  return "begins at batch " + rest_of_line(output, "begins at batch ") +
         (path.empty() ? "" : " from " + name_in(folder, path.substr(0, path.find(" ("))));
}

TEST_P(ResumeParts, AreGoneOnFromOrRefusedAsTheToolSays) {
  std::vector<Words> starts;
  std::vector<std::string> cells;
  std::vector<std::string> folders;
  std::vector<std::string> said;
  for (const PartsState& state : kPartsStates) {
    for (const StartForm& form : kStartForms) {
      // Two ranks take longer, and find the same tars as one rank.
      if (GetParam() == 2 && form.text == "tar of each rank") continue;
      folders.push_back(lay(state, folders.size()));
      said.push_back(said_by_tool(folders.back()));
      cells.push_back(form.text + ", " + state.text);
      starts.push_back(kPartsRun + form.words +
                       Words{"folder=" + folders.back(), "duration=9ba", "timeout_ms=60000"});
    }
  }
  Job job(GetParam(), in_turn(starts));
  job.exit_codes();
  GoldenTable table("resuming_parts.txt",
                    std::to_string(GetParam()) + (GetParam() == 1 ? " rank" : " ranks"));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string done = trainer_result(folders[i], part(job.output(0), i));
    EXPECT_EQ(done, said[i]) << cells[i] << "\n" << part(job.output(0), i);
    table.add(cells[i], done + (done == said[i] ? "" : "; the tool: " + said[i]));
  }
  EXPECT_EQ(table.check(), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, ResumeParts, ::testing::Values(1, 2));

}  // namespace
}  // namespace cairn
