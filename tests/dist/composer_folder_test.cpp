// Sharded checkpoints in Composer's layout: tests/data/composer-0.33/sharded/ep0-ba3. Two ranks of
// PyTorch wrote it from Composer's own adamw_cosine/ep0-ba3-rank0.pt.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/sharded.h"

#include "job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::losses_of;
using cairn::testing::operator+;
using cairn::testing::part;
using cairn::testing::TempFolder;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

const std::string kComposer = CAIRN_TEST_DATA "/composer-0.33/";

Words run_of(int ranks, const std::string& folder, const std::string& duration) {
  return {"train",
          "composer=" + kComposer + "data.pt",
          "shard=FULL_SHARD",
          "state=sharded",
          "batch=" + std::to_string(ranks == 3 ? 4 : 8 / ranks),
          "interval=5ba",
          "folder=" + folder,
          "duration=" + duration};
}

// Makes a save_folder as Composer's run leaves it.
void lay_out(const std::string& folder) {
  std::filesystem::copy(kComposer + "sharded/ep0-ba3", folder + "/ep0-ba3");
  std::filesystem::create_symlink("ep0-ba3", folder + "/latest-rank0.pt");
}

void expect_equal(const Value& found, const Value& expected, const std::string& path) {
  if (!expected.is_tensor()) {
    ASSERT_TRUE(expected.is_dict() && found.is_dict()) << path;
    ASSERT_EQ(found.as_dict().size(), expected.as_dict().size()) << path;
    for (const auto& [key, value] : expected.as_dict()) {
      ASSERT_NE(found.as_dict().find(key), nullptr) << path << "/" << key.as_str();
      expect_equal(found.at(key.as_str()), value, path + "/" + key.as_str());
    }
    return;
  }
  ASSERT_EQ(found.as_tensor().shape, expected.as_tensor().shape) << path;
  const SharedBytes one = found.as_tensor().contiguous_bytes();
  const SharedBytes other = expected.as_tensor().contiguous_bytes();
  EXPECT_TRUE(std::ranges::equal(one.view, other.view)) << path;
}

// Adds the path of every value that is not a dict. Also walks through lists of dicts.
void add_paths(const Value& value, const std::string& path, std::set<std::string>& paths) {
  const bool has_dicts = value.is_list() && !value.as_items().empty() &&
                         std::ranges::all_of(value.as_items(), &Value::is_dict);
  if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict())
      add_paths(item, path + "/" + key.as_str(), paths);
  } else if (has_dicts) {
    for (std::size_t i = 0; i < value.as_items().size(); ++i)
      add_paths(value.as_items()[i], path + "/" + std::to_string(i), paths);
  } else {
    paths.insert(path);
  }
}

class ComposerFolder : public ::testing::TestWithParam<int> {};

// The run loads Composer's checkpoint, and saves at once. The saved state is Composer's, bit for
// bit.
TEST_P(ComposerFolder, IsGoneOnFrom) {
  const TempFolder folder;
  lay_out(folder.path());
  const int ranks = GetParam();
  Job job(ranks, in_turn({run_of(ranks, folder.path(), "3ba") + Words{"keeps=1"},
                          run_of(ranks, folder.path(), "5ba")}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  for (const auto& rank : job.ranks) {
    EXPECT_THAT(part(rank->output(), 0), HasSubstr("begins at batch 3"));
    EXPECT_THAT(part(rank->output(), 1), HasSubstr("begins at batch 3"));
  }
  const Value whole = load(kComposer + "adamw_cosine/ep0-ba3-rank0.pt").at("state");
  const Value ours = load(folder.path() + "/ep0-ba3").at("state");
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/ep0-ba3/.cairn_manifest.json"));
  expect_equal(ours.at("model"), whole.at("model"), "model");
  const char* const name = "DecoupledAdamW";
  expect_equal(ours.at("optimizers").at(name).at("state"),
               whole.at("optimizers").at(name).at("state"), name);
  const auto losses = losses_of(part(job.output(0), 1));
  ASSERT_EQ(losses.size(), 2U);
  if (ranks > 1) return;  // BatchNorm sees the batch of one rank.
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/ep0-ba5/.metadata"));
}

INSTANTIATE_TEST_SUITE_P(Ranks, ComposerFolder, ::testing::Values(1, 2, 3));

// A new run loads Composer's checkpoint by load_path. The checkpoint that this run writes has all
// entries that Composer expects.
TEST(ComposerLayout, IsLoadedByPathAndWritten) {
  const TempFolder folder;
  Words run = run_of(2, folder.path(), "5ba");
  run.push_back("load=" + kComposer + "sharded/ep0-ba3");
  Job job(2, in_turn({run}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(job.output(1), HasSubstr("begins at batch 3"));
  EXPECT_EQ(std::filesystem::read_symlink(folder.path() + "/latest-rank0.pt"), "ep0-ba5");
  std::set<std::string> composers;
  std::set<std::string> ours;
  add_paths(load(kComposer + "sharded/ep0-ba3"), "", composers);
  add_paths(load(folder.path() + "/ep0-ba5"), "", ours);
  std::vector<std::string> missing;
  std::ranges::set_difference(composers, ours, std::back_inserter(missing));
  EXPECT_THAT(missing, ElementsAre());
}

}  // namespace
}  // namespace cairn
