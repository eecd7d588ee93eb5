// Commit 354b4a8e of cairn made these runs. Each run saved, or was killed during a save. The
// present cairn continues each run from the newest checkpoint, with the same weights. cairn removes
// the files that the kill left over, and counts the old checkpoints among those to keep.
// tests/data/run-354b4a8e/README.md says how the runs were made. Real processes on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "job.h"
#include "testing/child_process.h"
#include "testing/file_bytes.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using cairn::testing::ChildProcess;
using cairn::testing::Job;
using cairn::testing::kData;
using cairn::testing::operator+;
using cairn::testing::read_file;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using ::testing::Each;
using ::testing::ElementsAreArray;

using Words = std::vector<std::string>;

const std::string kOldRuns = kData + "/run-354b4a8e";

struct OldRun {
  std::string form;   // As in old_run.cpp.
  std::string state;  // "saved", or the moment of the kill.
  Words left = {};    // The files that must exist at the end.
};

void PrintTo(const OldRun& run, std::ostream* out) {  // NOLINT: gtest's name
  *out << run.form << ", " << run.state;
}

// The files in a run's folder, without the ids of attempts. Temporary files of killed uploads stay
// in the archive. In a real bucket, the bucket's own rules would remove such files.
Words files_below(const std::string& folder) {
  static const std::regex id("-[0-9a-f]{16}");
  Words names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder);
    const bool is_file = !entry.is_directory() || entry.is_symlink();
    const bool is_of_upload =
        name.starts_with("archive/") && name.find("/.cairn-tmp-") != name.npos;
    if (is_file && !is_of_upload) names.push_back(std::regex_replace(name, id, ""));
  }
  std::ranges::sort(names);
  return names;
}

// A copy of an old run's folder. Starts the processes that continue the run there.
class OldFolder {
 public:
  OldFolder(const std::string& form, const std::string& state)
      : form_(form),
        expected_(
            nlohmann::json::parse(read_file(kOldRuns + "/expected.json")).at(form).at(state)) {
    ChildProcess tar({"/usr/bin/env", "tar", "-xJf", kOldRuns + "/" + form + ".tar.xz", "-C",
                      folder_.path(), "--strip-components=1", state});
    EXPECT_EQ(tar.wait().exit_code, 0) << tar.output();
  }

  // Returns the output of each rank. Expects that the weights are the saved ones, bit for bit.
  Words go_on(const Words& more = {}) const {
    const nlohmann::json& first = expected_.at("first");
    Job job(static_cast<int>(first.size()),
            Words{"/usr/bin/env", "--chdir=" + folder_.path(), OLD_RUN_PROGRAM, form_} + more);
    EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    Words said;
    for (const auto& rank : job.ranks) {
      const std::string weights = rest_of_line(rank->output(), "first weights ");
      EXPECT_EQ(rest_of_line(rank->output(), "begins at batch "), expected("begins"));
      EXPECT_EQ(weights.substr(0, weights.find(' ')), first.at(said.size()).get<std::string>());
      said.push_back(rank->output());
    }
    return said;
  }

  // A value that commit 354b4a8e printed when it continued this run.
  std::string expected(const char* key) const { return expected_.at(key); }
  double last_sum(std::size_t rank) const { return expected_.at("last").at(rank); }
  std::string path() const { return folder_.path(); }

 private:
  const std::string form_;
  const nlohmann::json expected_;
  const TempFolder folder_;
};

class OldRuns : public ::testing::TestWithParam<OldRun> {};

TEST_P(OldRuns, GoOnFromTheNewestAndEndAsTheyWouldHave) {
  const OldFolder folder(GetParam().form, GetParam().state);
  const Words said = folder.go_on();
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    SCOPED_TRACE(said[rank]);
    EXPECT_EQ(rest_of_line(said[rank], "ends at batch "), folder.expected("ends"));
    const std::string last = rest_of_line(said[rank], "last weights ");
    ASSERT_NE(last, "");
    // The last bits differ from one processor to another.
    EXPECT_NEAR(std::stod(last.substr(last.rfind(' ') + 1)), folder.last_sum(rank), 1e-3);
  }
  EXPECT_THAT(files_below(folder.path()), ElementsAreArray(GetParam().left));
}

const Words kTwoFiles = {"run/ep1-ba14-rank0.pt", "run/ep1-ba16-rank0.pt", "run/latest-rank0.pt"};
const Words kTwoObjects = {"disk/run/ep1-ba14-rank0.pt", "disk/run/ep1-ba16-rank0.pt",
                           "disk/run/latest-rank0.pt.pointer"};
const Words kTwoTars = {"run/ep1-ba6-rank0.pt.tar", "run/ep1-ba6-rank1.pt.tar",
                        "run/ep1-ba8-rank0.pt.tar", "run/ep1-ba8-rank1.pt.tar",
                        "run/latest-rank0.pt.tar",  "run/latest-rank1.pt.tar"};

Words two_folders(const std::string& run, const std::string& pointer) {
  Words names;
  for (const char* batch : {"6", "8"}) {
    for (const char* file : {".cairn_manifest.json", ".metadata", "__0_0.distcp", "__1_0.distcp"})
      names.push_back(run + "/ep1-ba" + batch + "/" + file);
  }
  names.push_back(run + "/" + pointer);
  return names;
}

INSTANTIATE_TEST_SUITE_P(OfOneFile, OldRuns,
                         ::testing::Values(OldRun{"one_file", "saved", kTwoFiles},
                                           OldRun{"one_file", "writing", kTwoFiles},
                                           OldRun{"one_file", "linking", kTwoFiles},
                                           OldRun{"one_file", "linked", kTwoFiles},
                                           OldRun{"async", "writing", kTwoFiles},
                                           OldRun{"disk", "saved", kTwoObjects},
                                           OldRun{"disk", "pointing", kTwoObjects}));
// Files that were not uploaded before the kill stay in the local folder. Files that were uploaded
// stay in the archive.
INSTANTIATE_TEST_SUITE_P(
    OfUploads, OldRuns,
    ::testing::Values(OldRun{"uploads",
                             "saved",
                             {"archive/run/ep0-ba2-rank0.pt", "archive/run/ep1-ba14-rank0.pt",
                              "archive/run/ep1-ba16-rank0.pt", "archive/run/latest-rank0.pt",
                              "run/ep0-ba4-rank0.pt"}},
                      OldRun{"uploads",
                             "uploading",
                             {"archive/run/ep0-ba2-rank0.pt", "archive/run/ep0-ba6-rank0.pt",
                              "archive/run/ep1-ba14-rank0.pt", "archive/run/ep1-ba16-rank0.pt",
                              "archive/run/latest-rank0.pt", "run/ep0-ba4-rank0.pt",
                              "run/ep0-ba6-rank0.pt", "run/ep0-ba8-rank0.pt"}}));
INSTANTIATE_TEST_SUITE_P(
    OfAllRanks, OldRuns,
    ::testing::Values(
        OldRun{"sharded", "saved", two_folders("run", "latest-rank0.pt")},
        OldRun{"sharded", "writing", two_folders("run", "latest-rank0.pt")},
        OldRun{"sharded", "publishing", two_folders("run", "latest-rank0.pt")},
        OldRun{"disk_sharded", "saved", two_folders("disk/run", "latest-rank0.pt.pointer")},
        OldRun{"disk_sharded", "publishing", two_folders("disk/run", "latest-rank0.pt.pointer")},
        OldRun{"tars", "saved", kTwoTars}, OldRun{"tars", "writing", kTwoTars},
        OldRun{"tars", "publishing", kTwoTars}));

// The old run's list of saves has paths in the folder where that run was made.
TEST(OldRunsTest, AMovedFolderIsTheOldRuns) {
  const OldFolder folder("one_file", "linking");
  folder.go_on({"folder=" + folder.path() + "/run"});
  EXPECT_THAT(files_below(folder.path()), ElementsAreArray(kTwoFiles));
}

// The run was killed after its last save had moved the link, and before that save removed an old
// checkpoint.
TEST(OldRunsTest, AFinishedRunIsTidied) {
  const OldFolder folder("one_file", "linked");
  const Words said = folder.go_on({"duration=6ba"});
  EXPECT_EQ(rest_of_line(said.at(0), "ends at batch "), folder.expected("begins"));
  EXPECT_THAT(
      files_below(folder.path()),
      ElementsAreArray({"run/ep0-ba4-rank0.pt", "run/ep0-ba6-rank0.pt", "run/latest-rank0.pt"}));
}

}  // namespace
}  // namespace cairn
