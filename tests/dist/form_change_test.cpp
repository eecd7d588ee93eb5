// A run that is started again in another form continues from its checkpoint in the previous form.
// `cairn resume --explain` names that checkpoint. Real processes on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "job.h"
#include "testing/child_process.h"
#include "testing/file_bytes.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using cairn::testing::ChildProcess;
using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::operator+;
using cairn::testing::part;
using cairn::testing::read_file;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using cairn::testing::write_file;
using ::testing::Each;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

// 32 samples on 2 ranks are 4 batches per epoch.
const Words kSameRun = {"train", "float=1", "batch=4", "samples=32", "interval=1ep", "may_fail=1"};

struct Form {
  std::string name;
  Words words;
};

const std::vector<Form> kForms = {
    {"data parallel", {}},
    {"one file of shards", {"shard=FULL_SHARD"}},
    {"sharded folder", {"shard=FULL_SHARD", "state=sharded"}},
    {"tar of each rank", {"deepspeed=3"}},
};
constexpr std::size_t kTars = 3;  // The index of the last form.

enum Condition { kNoLink, kNewestDamaged };

// Flips the middle half of the largest file of the newest checkpoint. Each form names that file
// differently. The largest tar is rank 0's, which `cairn resume --explain` reads. A sharded load
// reads only the bytes that its ranks need, and some of these bytes are in that half.
void damage_newest(const std::string& folder) {
  fs::path largest;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path();
    const bool is_newest = path.find("ep2-ba8") != std::string::npos;
    const bool is_of_rank_1 = path.find("rank1") != std::string::npos;
    if (!is_newest || is_of_rank_1 || entry.is_symlink() || !entry.is_regular_file()) continue;
    if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
  }
  std::string bytes = read_file(largest);
  for (std::size_t i = bytes.size() / 4; i < bytes.size() * 3 / 4; ++i) {
    bytes[i] ^= 1;
  }
  write_file(largest, bytes);
}

nlohmann::json explained(const std::string& folder) {
  ChildProcess tool({CAIRN_PROGRAM, "resume", "--explain", folder, "--run-name", "job", "--json"});
  tool.wait();
  const std::size_t begin = tool.output().find('{');
  if (begin == std::string::npos) return nullptr;
  return nlohmann::json::parse(tool.output().substr(begin));
}

// Starts all forms of the run from copies of the checkpoints that one form has saved.
class FormChange : public ::testing::TestWithParam<std::size_t> {
 protected:
  std::string copy(const std::string& saved, std::size_t form, Condition condition) const {
    std::string to = folder_ / (std::to_string(form) + (condition == kNoLink ? "-link" : "-new"));
    fs::copy(saved, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    if (condition == kNewestDamaged) {
      damage_newest(to);
      return to;
    }
    for (const auto& entry : fs::directory_iterator(to)) {
      if (entry.is_symlink()) fs::remove(entry.path());
    }
    return to;
  }

  TempFolder folder_;
};

TEST_P(FormChange, IsGoneOnFromOrRefusedAsExplained) {
  const std::string saved = folder_ / "saved";
  Job first(
      2, in_turn({kSameRun + kForms[GetParam()].words + Words{"folder=" + saved, "duration=2ep"}}));
  ASSERT_THAT(first.exit_codes(), Each(0)) << outputs_of(first);

  std::vector<Words> starts;
  std::vector<nlohmann::json> answers;
  for (std::size_t form = 0; form < kForms.size(); ++form) {
    for (const Condition condition : {kNoLink, kNewestDamaged}) {
      const std::string here = copy(saved, form, condition);
      answers.push_back(explained(here));
      starts.push_back(kSameRun + kForms[form].words + Words{"folder=" + here, "duration=3ep"});
    }
  }
  Job job(2, in_turn(starts));
  job.exit_codes();
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t form = i / 2;
    const std::string batch = i % 2 == kNoLink ? "8" : "4";
    const std::string what = kForms[form].name + (i % 2 == kNoLink ? ", no link" : ", damaged");
    SCOPED_TRACE(what + "\n" + part(job.output(0), i));
    ASSERT_TRUE(answers[i].is_object());
    const std::string path = answers[i]["path"];
    EXPECT_THAT(path, HasSubstr("-ba" + batch));
    for (const auto& rank : job.ranks) {
      const std::string said = part(rank->output(), i);
      if (GetParam() == kTars && form != kTars) {
        EXPECT_EQ(answers[i]["needs"], "deepspeed_config");
        EXPECT_THAT(said, HasSubstr(path));
        EXPECT_THAT(said, HasSubstr("saved a tar of each rank"));
      } else {
        EXPECT_THAT(said, HasSubstr("begins at batch " + batch));
      }
    }
    if (GetParam() == kTars && form != kTars) continue;
    EXPECT_THAT(part(job.output(0), i), HasSubstr("autoresume: going on from " + path));
  }
}

INSTANTIATE_TEST_SUITE_P(Saved, FormChange, ::testing::Range(std::size_t{0}, kForms.size()));

}  // namespace
}  // namespace cairn
