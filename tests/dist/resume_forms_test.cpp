// Starts a run again in a folder that holds checkpoints of some form in some state, and records
// what happens. The table tests/data/traces/resuming.txt has one line for each combination of
//   form of the run x form of the checkpoints x state of the checkpoints
// The Trainer must do what `cairn resume --explain` says. In the few cases where they may differ,
// the table has both answers. Here the job is one process with one rank, which saves in all three
// forms. form_change_test.cpp has two ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/error.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/optim/optimizers.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/trainer.h"

#include "testing/child_process.h"
#include "testing/golden_table.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using cairn::testing::ChildProcess;
using cairn::testing::LogRecorder;
using cairn::testing::read_file;
using cairn::testing::TempFolder;
using cairn::testing::write_file;

enum class RunForm : std::uint8_t { kOneFile, kShardedFolder, kRankTars };

constexpr std::array<RunForm, 3> kRunForms = {RunForm::kOneFile, RunForm::kShardedFolder,
                                              RunForm::kRankTars};

std::string text_of(RunForm form) {
  constexpr std::array<const char*, 3> kTexts = {"one file", "sharded folder", "tar of each rank"};
  return kTexts.at(static_cast<std::size_t>(form));
}

// The two checkpoints that a run has left: of batch 5 and of batch 10.
struct Left {
  RunForm form;
  std::string whose;  // "own", "weights" or "another run's".
  std::string text() const { return whose + " " + text_of(form); }
};

std::vector<Left> all_left() {
  std::vector<Left> all;
  for (const std::string whose : {"own", "weights", "another run's"}) {
    for (const RunForm form : kRunForms) {
      // A run that saves a tar of each rank refuses to save weights alone.
      if (whose != "weights" || form != RunForm::kRankTars) all.push_back({form, whose});
    }
  }
  return all;
}

// The states of the checkpoints, in the order of the table.
const std::vector<std::string> kStates = {
    "good link",
    "no link",
    "link to the older",
    "newest damaged",
    "newest damaged in a tensor",
    "part missing",
    "all damaged",
    "all damaged in a tensor",
    "newest gone",
    "only in the logger's place",
    "newer in the logger's place",
};

// A model in float32, which all forms can save.
struct FormNetImpl : torch::nn::Module {
  FormNetImpl() {
    torch::manual_seed(1);
    layer = register_module("layer", torch::nn::Linear(4, 3));
  }
  at::Tensor forward(const at::Tensor& input) { return layer(input.to(at::kFloat)); }
  torch::nn::Linear layer{nullptr};
};
TORCH_MODULE(FormNet);

TrainerOptions options_of(RunForm form, const std::string& folder) {
  TrainerOptions made = testing::tiny_options();
  made.model = classifier(FormNet(), {.num_classes = 3});
  made.optimizers = AdamW({.lr = 0.01});
  made.run_name = "run";
  made.save_folder = folder;
  made.save_async = false;
  if (form == RunForm::kShardedFolder) {
    made.parallelism_config = ParallelismConfig{.fsdp = FSDPConfig{.state_dict_type = "sharded"}};
  }
  if (form == RunForm::kRankTars) {
    made.deepspeed_config = Dict{{"zero_optimization", Dict{{"stage", 0}}}};
  }
  return made;
}

// A folder's checkpoint of that batch, in any form.
std::string checkpoint_in(const std::string& folder, const std::string& batch) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.find("-ba" + batch) != std::string::npos) return entry.path();
  }
  ADD_FAILURE() << "no checkpoint of batch " << batch << " in " << folder;
  return "";
}

// The file itself, or the largest file of the folder.
std::string largest_file(const std::string& checkpoint) {
  if (!fs::is_directory(checkpoint)) return checkpoint;
  std::string largest;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
  }
  return largest;
}

// Flips the middle half of the largest file.
void damage_checkpoint(const std::string& checkpoint) {
  const std::string file = largest_file(checkpoint);
  std::string bytes = read_file(file);
  for (std::size_t i = bytes.size() / 4; i < bytes.size() * 3 / 4; ++i) {
    bytes[i] ^= 1;
  }
  write_file(file, bytes);
}

// Flips the first byte of the first tensor, which only a full check notices. The byte follows the
// local header of an entry in the zip file.
void damage_tensor(const std::string& checkpoint) {
  const std::string file = largest_file(checkpoint);
  std::string bytes = read_file(file);
  const std::string name = "/data/0";
  for (auto at = bytes.find("PK\x03\x04"); at != std::string::npos;
       at = bytes.find("PK\x03\x04", at + 4)) {
    const auto number = [&](std::size_t offset) {
      return static_cast<std::size_t>(static_cast<unsigned char>(bytes.at(at + offset))) +
             256 * static_cast<std::size_t>(static_cast<unsigned char>(bytes.at(at + offset + 1)));
    };
    const std::size_t end = at + 30 + number(26);
    if (bytes.compare(end - name.size(), name.size(), name) != 0) continue;
    bytes.at(end + number(28)) ^= 1;
    return write_file(file, bytes);
  }
  ADD_FAILURE() << "no tensor in " << file;
}

// Removes a file of a folder, or the second half of a file.
void remove_part(const std::string& checkpoint) {
  const std::string file = largest_file(checkpoint);
  if (file == checkpoint) return fs::resize_file(file, fs::file_size(file) / 2);
  fs::remove(file);
}

std::string link_in(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) return entry.path();
  }
  ADD_FAILURE() << "no link in " << folder;
  return "";
}

void bring_into_state(const std::string& folder, const std::string& state) {
  const std::string newest = checkpoint_in(folder, "10");
  const std::string older = checkpoint_in(folder, "5");
  const std::string link = link_in(folder);
  if (state == "no link") fs::remove(link);
  if (state == "link to the older") {
    fs::remove(link);
    fs::create_symlink(fs::path(older).filename(), link);
  }
  if (state == "newest damaged" || state == "all damaged") damage_checkpoint(newest);
  if (state == "all damaged") damage_checkpoint(older);
  if (state.ends_with("damaged in a tensor")) damage_tensor(newest);
  if (state == "all damaged in a tensor") damage_tensor(older);
  if (state == "part missing") remove_part(newest);
  if (state == "newest gone") fs::remove_all(newest);
}

// The answer of the tool or of the Trainer.
struct Choice {
  std::string path = {};     // Empty: none.
  std::int64_t batch = 0;    // The batch at which training begins.
  std::string refusal = {};  // Empty: training begins.

  // The choice as text, without the names of the folders, which differ from test to test.
  std::string text(const std::string& folder, const std::string& sent) const {
    if (refusal.find("deepspeed_config") != std::string::npos) return "refused for its form";
    if (refusal.find("tar that cannot be loaded") != std::string::npos)
      return "refused for its damage";
    if (refusal.find(" of the run \"other\"") != std::string::npos) return "refused for its run";
    if (!refusal.empty()) return "refused: " + refusal;
    if (path.empty()) return "begins at batch " + std::to_string(batch);
    const bool is_sent = path.starts_with(sent + "/");
    return "goes on at batch " + std::to_string(batch) + " from " +
           (is_sent ? "the logger's " + path.substr(sent.size() + 1)
                    : path.substr(folder.size() + 1));
  }
};

struct ToolAnswer {
  Choice choice;
  std::string needs;  // The option without which no Trainer takes the checkpoint.
};

// `form`: the form in which the run saves now.
ToolAnswer ask_tool(const std::string& folder, RunForm form) {
  std::vector<std::string> command = {CAIRN_PROGRAM, "resume", "--explain", folder,
                                      "--run-name",  "run",    "--json"};
  if (form == RunForm::kShardedFolder)
    command.insert(command.end(), {"--state-dict-type", "sharded"});
  if (form == RunForm::kRankTars) command.emplace_back("--deepspeed-config");
  ChildProcess tool(command);
  tool.wait();
  const std::size_t begin = tool.output().find('{');
  if (begin == std::string::npos) {
    ADD_FAILURE() << tool.output();
    return {};
  }
  const auto said = nlohmann::json::parse(tool.output().substr(begin));
  const auto text = [&](const char* key) {
    return said.at(key).is_null() ? std::string() : said.at(key).get<std::string>();
  };
  ToolAnswer answer{.choice = {.path = text("path"), .refusal = text("refusal")},
                    .needs = text("needs")};
  if (!answer.choice.path.empty()) answer.choice.batch = said.at("batch").get<std::int64_t>();
  return answer;
}

// Combines the answers for two places. The furthest checkpoint counts; if both are equally far, the
// first place counts. If neither place has a checkpoint, a refusal of either place counts.
ToolAnswer further_of(const ToolAnswer& here, const ToolAnswer& there) {
  if (there.choice.path.empty()) {
    return here.choice.path.empty() && here.choice.refusal.empty() ? there : here;
  }
  return here.choice.path.empty() || there.choice.batch > here.choice.batch ? there : here;
}

Choice ask_trainer(TrainerOptions made) {
  const auto log = std::make_shared<LogRecorder>();
  made.loggers.push_back(log);
  Choice choice;
  try {
    Trainer trainer(std::move(made));
    choice.batch = trainer.state().timestamp.batch;
    trainer.close();
  } catch (const Error& error) {
    choice.refusal = error.what();
    return choice;
  }
  const std::string begin = "autoresume: going on from ";
  for (const std::string& message : log->messages) {
    if (!message.starts_with(begin)) continue;
    choice.path = message.substr(begin.size());
    choice.path.resize(std::min(choice.path.find(" ("), choice.path.size()));
  }
  if (choice.batch == 0) choice.path.clear();  // The checkpoint that the Trainer tried was damaged.
  return choice;
}

class ResumeForms : public ::testing::Test {
 protected:
  // The folder of a finished run, saved once.
  const std::string& saved(const Left& left) {
    std::string& folder = saved_[left.text()];
    if (!folder.empty()) return folder;
    folder = temp_ / ("saved " + left.text());
    TrainerOptions made = options_of(left.form, folder);
    made.loggers = {std::make_shared<LogRecorder>()};
    made.save_weights_only = left.whose == "weights";
    if (left.whose == "another run's") made.run_name = "other";
    Trainer trainer(std::move(made));
    trainer.fit();
    trainer.close();
    return folder;
  }

  void lay(const Left& left, const std::string& state) {
    fs::remove_all(here_);
    fs::remove_all(there_);
    const bool only_there = state == "only in the logger's place";
    const bool is_newer_there = state == "newer in the logger's place";
    const auto how = fs::copy_options::recursive | fs::copy_options::copy_symlinks;
    if (!only_there) fs::copy(saved(left), here_, how);
    if (only_there || is_newer_there) fs::copy(saved(left), there_, how);
    if (is_newer_there) bring_into_state(here_, "newest gone");
    if (!only_there && !is_newer_there) bring_into_state(here_, state);
  }

  Choice trainer_choice(RunForm form, bool has_logger) const {
    TrainerOptions made = options_of(form, here_);
    made.autoresume = true;
    if (has_logger) {
      made.loggers.push_back(RemoteUploaderDownloader({.bucket_uri = there_}));
      made.save_remote_file_name = made.save_filename;
      made.save_latest_remote_file_name = made.save_latest_filename;
    }
    return ask_trainer(std::move(made));
  }

  const TempFolder temp_;
  const std::string here_ = temp_ / "here";
  const std::string there_ = temp_ / "there";
  std::map<std::string, std::string> saved_;
};

// The answer of the tool for a Trainer that saves in that form.
Choice said_of(RunForm form, const ToolAnswer& tool) {
  if (tool.needs.empty() || form == RunForm::kRankTars) return tool.choice;
  return {.refusal = tool.choice.path + " needs " + tool.needs};
}

// Whether the tool and the Trainer may differ. The tool lets a run begin anew if the tars of all
// saves are damaged. A run that saves tars refuses: such a run finds the damage only when each rank
// loads its own tar.
bool may_differ(RunForm form, const Left& left, const std::string& state) {
  return left.whose == "own" && form == RunForm::kRankTars && left.form == RunForm::kRankTars &&
         state == "all damaged in a tensor";
}

TEST_F(ResumeForms, AreGoneOnFromAsTheToolSays) {
  std::map<RunForm, testing::GoldenTable> tables;
  for (const RunForm form : kRunForms) {
    tables.emplace(form, testing::GoldenTable("resuming.txt", text_of(form)));
  }
  for (const Left& left : all_left()) {
    for (const std::string& state : kStates) {
      lay(left, state);
      const bool has_logger = state.ends_with("logger's place");
      for (const RunForm form : kRunForms) {
        // The tars of ranks are not uploaded.
        if (has_logger && form == RunForm::kRankTars) continue;
        SCOPED_TRACE(text_of(form) + ", " + left.text() + ", " + state);
        if (has_logger) lay(left, state);
        ToolAnswer tool = ask_tool(here_, form);
        if (has_logger) tool = further_of(tool, ask_tool(there_, form));
        const Choice choice = trainer_choice(form, has_logger);
        const std::string text = choice.text(here_, there_);
        const std::string said = said_of(form, tool).text(here_, there_);
        if (!may_differ(form, left, state)) {
          EXPECT_EQ(text, said) << "the Trainer: " << choice.refusal
                                << "\nthe tool: " << tool.choice.refusal;
        }
        tables.at(form).add(left.text() + ", " + state,
                            text + (text == said ? "" : "; the tool: " + said));
      }
    }
  }
  for (const auto& [form, table] : tables) {
    EXPECT_EQ(table.check(), "");
  }
}

}  // namespace
}  // namespace cairn
