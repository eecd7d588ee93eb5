// deepspeed_config: checkpoints of one tar per rank. Real processes on this machine.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"

#include "format/tar/reader.h"
#include "io/file.h"
#include "job.h"
#include "resuming/rank_tar_loads.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "train/trainer/deepspeed_config.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::message_of;
using cairn::testing::names_in;
using cairn::testing::operator+;
using cairn::testing::part;
using cairn::testing::read_file;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using cairn::testing::write_file;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

// Unpacks the tar like `tar -x`.
void unpack_tar(const std::string& path, const std::string& into) {
  const auto file = posix_file_system().open(path);
  const std::string bytes = read_file(path);
  for (const tar::File& inside : tar::read_files(*file)) {
    const fs::path to = into + "/" + inside.name;
    fs::create_directories(to.parent_path());
    write_file(to, bytes.substr(inside.offset, inside.size));
  }
}

// 32 samples on 2 ranks are 4 batches per epoch.
const Words kTarRun = {"train", "float=1", "norm=1", "batch=4", "samples=32", "dropout=30"};

// Each rank has its own folder, as on machines without a common file system.
Words in_own_folders(const TempFolder& folder) {
  return {"folder=" + folder.path() + "/{rank}", "interval=1ep"};
}

std::string tar_of(const TempFolder& folder, const std::string& name, int rank) {
  return folder.path() + "/" + std::to_string(rank) + "/" + name + "-rank" + std::to_string(rank) +
         ".pt.tar";
}

void expect_end_alike(const Job& job, std::size_t one, std::size_t other) {
  for (const auto& rank : job.ranks) {
    const std::string weights = rest_of_line(part(rank->output(), one), "weights ");
    EXPECT_NE(weights, "") << rank->output();
    EXPECT_EQ(rest_of_line(part(rank->output(), other), "weights "), weights) << rank->output();
  }
}

class RankTars : public ::testing::TestWithParam<int> {};

// The run is saved in the middle, and ends with the same bits as an unbroken run. All ranks' tars,
// unpacked into one folder, are a checkpoint of DeepSpeed. It has the same weights as a checkpoint
// in one file.
TEST_P(RankTars, ARunGoesOnBitForBit) {
  const std::string stage = std::to_string(GetParam());
  const TempFolder folder;
  const TempFolder plain_folder;
  const Words run = kTarRun + Words{"deepspeed=" + stage};
  const Words saved = run + in_own_folders(folder);
  const std::map<int, std::string> strategies = {
      {0, "NO_SHARD"}, {1, "SHARD_GRAD_OP"}, {2, "SHARD_GRAD_OP"}, {3, "FULL_SHARD"}};
  Job job(2, in_turn({run, saved + Words{"duration=1ep", "async=1"}, saved,
                      kTarRun + Words{"shard=" + strategies.at(GetParam()), "interval=1ep",
                                      "folder=" + plain_folder.path()}}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  for (const auto& rank : job.ranks)
    EXPECT_THAT(part(rank->output(), 2), HasSubstr("begins at batch 4"));
  expect_end_alike(job, 0, 2);
  for (const int rank : {0, 1}) {
    const std::string own = std::to_string(rank);
    const std::string of_rank = "-rank" + own + ".pt.tar";
    EXPECT_THAT(names_in(folder / own),
                ElementsAre("ep1-ba4" + of_rank, "ep2-ba8" + of_rank, "latest" + of_rank));
    EXPECT_EQ(fs::read_symlink(folder / own + "/latest" + of_rank), "ep2-ba8" + of_rank);
    EXPECT_TRUE(verify(tar_of(folder, "ep2-ba8", rank)).ok());
    unpack_tar(tar_of(folder, "ep2-ba8", rank), folder / "all");
    EXPECT_TRUE(fs::exists(folder / "all/composer_states.pt"));
  }
  convert(folder / "all", folder / "weights.pt");
  const Value weights = load(folder / "weights.pt");
  const Value expected = load(plain_folder / "ep2-ba8-rank0.pt").at("state").at("model");
  ASSERT_EQ(weights.as_dict().size(), expected.as_dict().size());
  for (const auto& [name, tensor] : expected.as_dict()) {
    // Skips a counter, which is float32 in DeepSpeed's checkpoint.
    if (tensor.as_tensor().dtype != DType::kFloat32) continue;
    EXPECT_EQ(weights.at(name.as_str()), tensor) << name.as_str();
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, RankTars, ::testing::Values(0, 1, 3));

// A far store, whose objects appear whole.
TEST(RankTarsTrainer, InAStoreTheyAreSavedAndGoneOnFromAlike) {
  const TempFolder folder;
  const Words run = kTarRun + Words{"deepspeed=2"};
  const Words saved = run + Words{"folder=" + folder.path(), "far=1", "interval=1ep", "async=1"};
  Job job(2, in_turn({run, saved + Words{"duration=1ep"}, saved}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  for (const auto& rank : job.ranks) {
    EXPECT_THAT(part(rank->output(), 2),
                AllOf(HasSubstr("begins at batch 4"), Not(HasSubstr("random states"))));
  }
  expect_end_alike(job, 0, 2);
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("ep1-ba4-rank0.pt.tar", "ep1-ba4-rank1.pt.tar", "ep2-ba8-rank0.pt.tar",
                          "ep2-ba8-rank1.pt.tar", "latest-rank0.pt.tar", "latest-rank1.pt.tar"));
}

class KilledRankTars : public ::testing::TestWithParam<Words> {};

// Rank 1 is killed at its third save, so rank 0 must resume from the tars of the second save.
TEST_P(KilledRankTars, TheRunGoesOnFromTheSaveThatAllHave) {
  const TempFolder folder;
  const Words run = kTarRun + Words{"deepspeed=2", "timeout_ms=60000"};
  const Words saved =
      run + Words{"folder=" + folder.path(), "filename=ba{batch}/rank{rank}.tgz"} + GetParam();
  Job killed(2, in_turn({saved + Words{"at_batch=3", "before_save=1"}}));
  EXPECT_THAT(killed.exit_codes(), ElementsAre(3, -1)) << killed.output(0);
  EXPECT_THAT(names_in(folder / "ba2"), ElementsAre("rank0.tgz", "rank1.tgz"));
  Job again(2, in_turn({saved, run}));
  ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
  EXPECT_THAT(again.output(1), HasSubstr("begins at batch 2"));
  expect_end_alike(again, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(Places, KilledRankTars, ::testing::Values(Words(), Words{"far=1"}));

TEST(RankTarsTrainer, WhoIsFurtherThanOthersGoesBackAndNobodyBeginsAlone) {
  const TempFolder folder;
  const Words run = kTarRun + Words{"deepspeed=3"};
  const Words saved = run + in_own_folders(folder);
  {
    Job job(2, in_turn({saved}));
    ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  }
  // As if rank 1 had died before its last tar had its name.
  fs::remove(tar_of(folder, "ep2-ba8", 1));
  {
    Job job(2, in_turn({saved, run}));
    ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    EXPECT_THAT(job.output(0), HasSubstr("not every rank has its file of that save"));
    EXPECT_THAT(job.output(0), HasSubstr("begins at batch 4"));
    EXPECT_THAT(job.output(1), HasSubstr("begins at batch 4"));
    expect_end_alike(job, 0, 1);
  }
  // All ranks pass over a save if the bytes of one tar are bad.
  std::string bytes = read_file(tar_of(folder, "ep2-ba8", 1));
  bytes[bytes.find("data.pkl", bytes.rfind("optim_states.pt")) + 300] ^= 1;
  write_file(tar_of(folder, "ep2-ba8", 1), bytes);
  {
    Job job(2, in_turn({saved}));
    ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    EXPECT_THAT(job.output(0), HasSubstr("begins at batch 4"));
    EXPECT_THAT(job.output(1), HasSubstr("begins at batch 4"));
  }
  fs::remove_all(folder / "1");
  for (const int ranks : {2, 3}) {
    Job job(ranks, in_turn({saved}));
    EXPECT_THAT(job.exit_codes(), Each(2)) << outputs_of(job);
    const std::string missing = ranks == 2 ? "[1]" : "[1, 2]";
    for (const auto& rank : job.ranks) {
      EXPECT_THAT(rank->output(),
                  HasSubstr("Deepspeed was enabled, but checkpoints missing on ranks: " + missing));
    }
  }
}

// The second evaluation has the largest loss.
TEST(RankTarsTrainer, TheBestStayOnEveryRank) {
  const TempFolder folder;
  const Words run = kTarRun + Words{"deepspeed=2",  "folder=" + folder.path(),
                                    "interval=1ep", "filename=ep{epoch}-rank{rank}.tar",
                                    "keep=1",       "best=eval/CrossEntropy"};
  Job job(2, in_turn({run + Words{"duration=2ep"}, run + Words{"duration=4ep"}}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("ep2-rank0.tar", "ep2-rank1.tar", "ep4-rank0.tar", "ep4-rank1.tar",
                          "latest-rank0.pt.tar", "latest-rank1.pt.tar"));
}

TEST(RankTarsTrainer, LoadPathIsOfEachRank) {
  const TempFolder folder;
  const Words run = kTarRun + Words{"deepspeed=2"};
  const Words named = {"folder=" + folder.path(), "interval=1ep",
                       "filename=ep{epoch}-ba{batch}-rank{rank}.tar"};
  Job job(2, in_turn({run + named + Words{"keep=1"}}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("ep2-ba8-rank0.tar", "ep2-ba8-rank1.tar",
                                                   "latest-rank0.pt.tar", "latest-rank1.pt.tar"));
  const TempFolder first;
  const Words half = run + Words{"duration=1ep", "folder=" + first.path(), "interval=1ep",
                                 "filename=half-ep{epoch}-rank{rank}.tar"};
  const std::string from_half = "load=" + first.path() + "/half-ep1-rank{rank}.tar";
  const Words goes_on = run + Words{from_half};
  Job again(2, in_turn({run, half, goes_on}));
  ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
  expect_end_alike(again, 0, 2);

  const auto refused = [&](int ranks, const Words& words) {
    Job wrong(ranks, in_turn({words}));
    for (const int code : wrong.exit_codes())
      EXPECT_EQ(code, 2) << outputs_of(wrong);
    return wrong.output(static_cast<std::size_t>(ranks - 1));
  };
  EXPECT_THAT(refused(2, run + Words{"load=" + first.path() + "/half-ep1-rank{rank}.pt"}),
              HasSubstr("Deepspeed checkpoints require a tarball, not a weights file."));
  EXPECT_THAT(refused(3, goes_on), HasSubstr("Deepspeed checkpoint missing for rank 2"));
  EXPECT_THAT(refused(1, goes_on), HasSubstr("was saved by 2 ranks, and this job has 1"));
  EXPECT_THAT(refused(1, kTarRun + Words{"load=" + first.path() + "/half-ep1-rank0.tar"}),
              HasSubstr("`cairn convert`"));
  fs::copy_file(folder / "ep2-ba8-rank1.tar", first / "half-ep1-rank1.tar",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(refused(2, goes_on), HasSubstr("the ranks' tars are of different saves"));
}

TEST(RankTarsTrainer, SavesThatAProgramAsksForLeaveNothingWhereTheRanksMeet) {
  const TempFolder folder;
  Job job(2, in_turn({kTarRun + Words{"deepspeed=1", "duration=1ba", "saves_again=4"} +
                      Words{"folder=" + folder.path()}}));
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_TRUE(fs::exists(folder / "again3-rank1.pt.tar"));
}

TEST(RankTarsTrainer, WhatCannotBeIsRefusedBeforeTraining) {
  const TempFolder folder;
  const std::string in = "folder=" + folder.path();
  const Words run = kTarRun + Words{"deepspeed=2", in};
  const std::vector<std::pair<Words, std::string>> cases = {
      {run + Words{"filename=ep{epoch}.tar"}, "must have {rank} for deepspeed"},
      {run + Words{"filename=rank{rank}.tar"}, "is the same name at every save"},
      {run + Words{"weights_only=1", "no_resume=1"}, "weights_only"},
      {Words{"train", "deepspeed=2", in}, "is Double, and DeepSpeed's files hold float32"},
      {run + Words{"shard=FULL_SHARD"}, "deepspeed_config and parallelism_config both say"},
      {Words{"train", "float=1", "deepspeed=4", in},
       "zero_optimization.stage must be 0, 1, 2 or 3"},
  };
  for (const auto& [words, expected] : cases) {
    Job job(2, in_turn({words}));
    EXPECT_THAT(job.exit_codes(), Each(2)) << outputs_of(job);
    EXPECT_THAT(job.output(1), HasSubstr(expected));
  }
}

// --- Without processes ---------------------------------------------------------------------------

TEST(DeepSpeedConfig, SaysTheStageAndNothingThatIsNotFollowed) {
  EXPECT_EQ(deepspeed_stage(Dict{}), 0);
  EXPECT_EQ(deepspeed_stage(Dict{{"zero_optimization", Dict{{"stage", 3}}},
                                 {"fp16", Dict{{"enabled", false}}}}),
            3);
  EXPECT_EQ(sharding_of_stage(3).fsdp->sharding_strategy, "FULL_SHARD");
  EXPECT_EQ(sharding_of_stage(1).fsdp->sharding_strategy, "SHARD_GRAD_OP");
  EXPECT_EQ(sharding_of_stage(0).fsdp->sharding_strategy, "NO_SHARD");
  const auto refusal = [](const Value& config) {
    return message_of<UnsupportedError>([&] { deepspeed_stage(config); });
  };
  EXPECT_THAT(refusal(Dict{{"gradient_clipping", 1.0}}), HasSubstr("GradientClipping"));
  EXPECT_THAT(refusal(Dict{{"fp16", Dict{{"enabled", true}}}}), HasSubstr("precision"));
  EXPECT_THAT(refusal(Dict{{"zero_optimization", Dict{{"stage", 2}, {"offload_optimizer", 1}}}}),
              HasSubstr("zero_optimization.offload_optimizer"));
  EXPECT_THROW(deepspeed_stage(3), UsageError);
  EXPECT_THROW(deepspeed_stage(Dict{{"zero_optimization", Dict{{"stage", "3"}}}}), UsageError);
}

SeenTar seen_tar(std::int64_t rank, const std::string& attempt, std::int64_t batch) {
  return {.is_there = true,
          .attempt = attempt,
          .position = {batch, 0, 0, 0},
          .rank = rank,
          .world_size = 3,
          .path = "tar-of-rank-" + std::to_string(rank)};
}

TEST(ChooseTars, TakesOneSaveThatAllHave) {
  const std::vector<SeenTar> all = {seen_tar(0, "a", 20), seen_tar(1, "a", 20),
                                    seen_tar(2, "a", 20)};
  EXPECT_EQ(choose_tars(all, false).kind, TarChoice::kAll);
  EXPECT_EQ(choose_tars({{}, {}, {}}, false).kind, TarChoice::kNone);
  const TarChoice further =
      choose_tars({seen_tar(0, "b", 30), seen_tar(1, "a", 20), seen_tar(2, "b", 30)}, false);
  EXPECT_EQ(further.kind, TarChoice::kGoBack);
  EXPECT_THAT(further.goes_back, ElementsAre(true, false, true));
  // The same batch was saved twice, and one rank has the older save.
  const TarChoice twice =
      choose_tars({seen_tar(0, "b", 30), seen_tar(1, "a", 30), seen_tar(2, "b", 30)}, false);
  EXPECT_THAT(twice.goes_back, ElementsAre(true, true, true));
}

TEST(ChooseTars, NamesWhoHasNone) {
  const auto refusal = [](const std::vector<SeenTar>& seen, bool went_back) {
    return message_of([&] { choose_tars(seen, went_back); });
  };
  EXPECT_THAT(refusal({{}, seen_tar(1, "a", 2), {}}, false),
              HasSubstr("checkpoints missing on ranks: [0, 2]"));
  EXPECT_THAT(refusal({{}, {}, {}}, true),
              HasSubstr("There is no save of which every rank has its tar"));
  EXPECT_THAT(refusal({seen_tar(0, "a", 2), seen_tar(1, "a", 2)}, false),
              HasSubstr("was saved by 3 ranks, and this job has 2"));
  EXPECT_THAT(refusal({seen_tar(0, "a", 2), seen_tar(0, "a", 2), seen_tar(2, "a", 2)}, false),
              HasSubstr("is rank 0's, but rank 1 loads it"));
}

}  // namespace
}  // namespace cairn
