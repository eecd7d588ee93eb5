// find_latest() as called by a program that does not know Trainers: with a folder and no options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "storage/local/local_store.h"
#include "testing/file_bytes.h"
#include "testing/sample_checkpoint.h"
#include "testing/sim_file_system.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FindByDefault : public ::testing::Test {
 protected:
  void save_value(const Value& value, const std::string& path, const CheckpointInfo& info = {}) {
    save(value, path, {.info = info, .store = store_});
  }
  void damage(const std::string& path) {
    std::string bytes(as_text(testing::file_bytes(disk_, path).view));
    bytes[bytes.size() / 3] ^= 1;
    disk_.remove(path);
    disk_.create(path, {})->write(as_bytes(bytes));
  }
  // The path found, or "nothing".
  std::string find(FindOptions options = {}, const std::string& folder = "/ckpt") {
    skipped_.clear();
    options.on_skip = [this](const std::string& path, const std::string& why) {
      skipped_.push_back(path + ": " + why);
    };
    options.store = store_;
    const auto found = find_latest(folder, options);
    if (!found) return "nothing";
    batch_ = found->timestamp.batch;
    return found->path;
  }

  testing::SimFileSystem disk_;
  std::shared_ptr<ObjectStore> store_ = local_store(disk_);
  std::vector<std::string> skipped_;
  std::int64_t batch_ = 0;
};

TEST_F(FindByDefault, WhatSaveWritesIsFound) {
  save_value(Dict{{"step", 20}}, "/ckpt/ep0-ba20-rank0.pt");
  save_value(Dict{{"step", 40}}, "/ckpt/ep0-ba40-rank0.pt");
  EXPECT_EQ(find(), "/ckpt/ep0-ba40-rank0.pt");
  EXPECT_EQ(batch_, 40) << "by its name";
  // This works whatever kind the checkpoint claims to be.
  save_value(Dict{{"step", 50}}, "/ckpt/ep0-ba50-rank0.pt", {.kind = "full"});
  EXPECT_EQ(find(), "/ckpt/ep0-ba50-rank0.pt");
  EXPECT_EQ(find({.full_state_only = false}), "/ckpt/ep0-ba50-rank0.pt");
  EXPECT_THAT(skipped_, IsEmpty());
}

TEST_F(FindByDefault, AnyNameWillDoTheNewestFileFirst) {
  save_value(Dict{{"step", 1}}, "/ckpt/ep1.pt");
  EXPECT_EQ(find(), "/ckpt/ep1.pt");
  save_value(Dict{{"step", 2}}, "/ckpt/a.tar");
  EXPECT_EQ(find(), "/ckpt/a.tar");
  damage("/ckpt/a.tar");
  EXPECT_EQ(find(), "/ckpt/ep1.pt");
  EXPECT_THAT(skipped_, ElementsAre(HasSubstr("/ckpt/a.tar")));
  EXPECT_EQ(find({.filename = "ba{batch}.pt"}), "nothing");
  save_value(testing::sample_checkpoint(3), "/ckpt/ep0-ba3-rank0.pt", testing::sample_info(3));
  EXPECT_EQ(find(), "/ckpt/ep0-ba3-rank0.pt") << "a usual name comes first";
}

// Otherwise a program that sets no `on_skip` would begin anew without knowing why.
TEST_F(FindByDefault, WhatIsPassedOverIsSaidOnStderrWhenNobodyAsks) {
  disk_.make_folders("/ckpt");
  disk_.create("/ckpt/ep0-ba2-rank0.pt", {})->write(as_bytes("not a checkpoint at all"));
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(find_latest("/ckpt", {.store = store_}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("warning: find_latest() passed over /ckpt/ep0-ba2-rank0.pt: "));
}

TEST_F(FindByDefault, AFolderIsAPathAsItStandsWhateverBracesAreInIt) {
  for (const std::string run : {"{rank}", "lr{0.1}", "lr{{0.1}}", "x{y}", "a}b{"}) {
    const std::string folder = strict_format("/runs/{run_name}", {{"run_name", run}});
    const FindOptions options{.filename = "{run_name}-ba{batch}.pt",
                              .run_name = run,
                              .latest_filename = "{run_name}-latest"};
    EXPECT_EQ(find(options, folder), "nothing");
    save_value(Dict{{"step", 4}}, folder + "/" + run + "-ba4.pt");
    EXPECT_EQ(find(options, folder), folder + "/" + run + "-ba4.pt");
    save_value(testing::sample_checkpoint(9), folder + "/best/9.pt", testing::sample_info(9));
    disk_.make_link("best/9.pt", folder + "/" + run + "-latest");
    EXPECT_EQ(find(options, folder), folder + "/best/9.pt");
  }
}

// If such a folder were not refused, nothing would be found, and the run would begin anew.
TEST_F(FindByDefault, AFolderThatWasMeantAsAFormatIsRefused) {
  EXPECT_THROW(find({.run_name = "mine"}, "/runs/{run_name}"), UsageError);
  EXPECT_EQ(find({.run_name = "{run_name}"}, "/runs/{run_name}"), "nothing");
}

}  // namespace
}  // namespace cairn
