// DeepSpeed's ZeRO folders: found, checked, refused. (tests/cli/dump_test.cpp tests their content.)
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "checkpoint/open/source.h"
#include "format/deepspeed/consolidate.h"
#include "testing/copied_folder.h"
#include "testing/message_of.h"
#include "testing/storage_ranges.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::CopiedFolder;
using testing::message_of;
using testing::read_file;
using testing::shared;
using testing::TempFolder;
using testing::write_file;

const std::string kGolden = std::string(CAIRN_TEST_DATA) + "/deepspeed/";

std::string refusal(const std::string& path) {
  return message_of([&] { open_source(path); });
}

TEST(DeepSpeedTest, IsOpenedByTheFolderOfTheTagAndByTheOneAboveIt) {
  const auto above = open_source(kGolden + "stage2");
  const auto tag = open_source(kGolden + "stage2/global_step3");
  EXPECT_EQ(above->info().format, "deepspeed");
  EXPECT_EQ(above->info().notes[0], (std::pair<std::string, std::string>("stage", "2")));
  EXPECT_EQ(above->info().notes[1], (std::pair<std::string, std::string>("ranks", "3")));
  EXPECT_EQ(above->read(), tag->read());
}

TEST(DeepSpeedTest, SharedParametersAreOneTensor) {
  const Value weights = open_source(kGolden + "stage3")->read();
  EXPECT_EQ(weights.at("head.weight").identity(), weights.at("embed.weight").identity());
}

TEST(DeepSpeedTest, TheNameInLatestLeadsNowhereElse) {
  const CopiedFolder copy(kGolden + "stage1");
  std::filesystem::rename(copy.file("global_step3"), copy.path() + "-outside");
  for (const std::string tag : {"../zero-outside", "/", "..", "", "gone"}) {
    write_file(copy.path() + "/latest", tag);
    EXPECT_THROW(open_source(copy.path()), Error) << tag;
  }
}

TEST(DeepSpeedTest, AMissingRankIsNamed) {
  const CopiedFolder copy(kGolden + "stage3");
  std::filesystem::remove(copy.path() + "/global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt");
  EXPECT_NE(refusal(copy.path()).find("the optimizer states of rank 1 are missing"),
            std::string::npos)
      << refusal(copy.path());
  const CopiedFolder last(kGolden + "stage2");
  std::filesystem::remove(last.path() + "/global_step3/zero_pp_rank_2_mp_rank_00_optim_states.pt");
  EXPECT_NE(refusal(last.path()).find("was one of 3, but there are files of 2"), std::string::npos)
      << refusal(last.path());
}

TEST(DeepSpeedTest, DamageNamesTheFileOfTheRank) {
  const CopiedFolder copy(kGolden + "stage2");
  EXPECT_TRUE(verify(copy.path()).ok());
  const std::string name = "zero_pp_rank_1_mp_rank_00_optim_states.pt";
  std::string bytes = read_file(copy.path() + "/global_step3/" + name);
  bytes[bytes.find("cur_iter")] = 'C';  // In data.pkl.
  write_file(copy.path() + "/global_step3/" + name, bytes);
  const VerifyReport report = verify(copy.path());
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.summary().find(name), std::string::npos) << report.summary();
}

TEST(DeepSpeedTest, WhatOnlyItsProgramCanPutTogetherIsRefusedByName) {
  const CopiedFolder copy(kGolden + "stage1");
  write_file(copy.path() + "/global_step3/mp_rank_01_model_states.pt", "");
  EXPECT_THROW(open_source(copy.path()), UnsupportedError);
  EXPECT_NE(refusal(copy.path())
                .find("mp_rank_01_model_states.pt: this checkpoint is of a model that is "
                      "split by layers, experts or tensors"),
            std::string::npos);
  const CopiedFolder universal(kGolden + "stage1");
  write_file(universal.path() + "/latest_universal", "global_step3");
  EXPECT_NE(refusal(universal.path()).find("a universal checkpoint"), std::string::npos);
  const CopiedFolder no_zero(kGolden + "stage1");
  for (const char* rank : {"0", "1"}) {
    std::filesystem::remove(no_zero.path() + "/global_step3/zero_pp_rank_" + rank +
                            "_mp_rank_00_optim_states.pt");
  }
  EXPECT_NE(refusal(no_zero.path()).find("saved without ZeRO"), std::string::npos);
}

// --- What the files hold -------------------------------------------------------------------------

TensorView floats(std::int64_t count) {
  return make_tensor(DType::kFloat32, {count},
                     shared(std::string(static_cast<std::size_t>(count) * 4, '\0')));
}

// Two ranks of stage 2 with the parameters a, of shape (3, 2), and b, of shape ().
deepspeed::Ranks two_ranks() {
  deepspeed::Ranks ranks;
  ranks.model = {Dict{{"module", Dict{}},
                      {"buffer_names", List{}},
                      {"param_shapes", List{Dict{{"a", Size{{3, 2}}}, {"b", Size{{}}}}}},
                      {"shared_params", Dict{}}}};
  for (const std::int64_t count : {4, 3}) {
    ranks.optimizer.emplace_back(Dict{
        {"optimizer_state_dict", Dict{{"zero_stage", 2},
                                      {"partition_count", List{2}},
                                      {"single_partition_of_fp32_groups", List{floats(count)}}}}});
  }
  return ranks;
}

Value& state_of(Value& rank) { return rank.mutable_dict()["optimizer_state_dict"]; }

TEST(DeepSpeedTest, TwoRanksAreCutIntoTheirParameters) {
  const Value weights = deepspeed::consolidate(two_ranks(), {}).weights;
  EXPECT_EQ(weights.as_dict().size(), 2U);
  EXPECT_FALSE(weights.at("a").as_tensor().storage->try_view());  // Spans both slices.
  EXPECT_TRUE(weights.at("b").as_tensor().storage->try_view());   // Within one slice.
}

TEST(DeepSpeedTest, WhatIsCutIntoSlicesIsReadInAnyPart) {
  deepspeed::Ranks ranks = two_ranks();
  const auto flat = [](std::int64_t count, const std::string& bytes) {
    return List{make_tensor(DType::kFloat32, {count}, shared(bytes))};
  };
  const char* const key = "single_partition_of_fp32_groups";
  state_of(ranks.optimizer[0]).mutable_dict()[key] = flat(4, "0123456789abcdef");
  state_of(ranks.optimizer[1]).mutable_dict()[key] = flat(3, "ghijklmnopqr");
  const Value weights = deepspeed::consolidate(ranks, {}).weights;
  const Storage& a = *weights.at("a").as_tensor().storage;
  EXPECT_EQ(as_text(a.bytes().view), "0123456789abcdefghijklmn");
  EXPECT_EQ(testing::wrong_range_of(a), "");
}

TEST(DeepSpeedTest, RanksThatContradictOneAnotherAreCorrupt) {
  const auto is_corrupt = [](const std::function<void(deepspeed::Ranks&)>& change) {
    deepspeed::Ranks ranks = two_ranks();
    change(ranks);
    EXPECT_THROW(deepspeed::consolidate(ranks, {}), CorruptError);
  };
  const auto shape = [](deepspeed::Ranks& ranks, std::vector<std::int64_t> dims) {
    ranks.model[0].mutable_dict()["param_shapes"] = List{Dict{{"a", Size{std::move(dims)}}}};
  };
  is_corrupt([](auto& ranks) { ranks.optimizer.pop_back(); });
  is_corrupt([](auto& ranks) { ranks.model.clear(); });
  is_corrupt([](auto& ranks) { state_of(ranks.optimizer[1]).mutable_dict()["zero_stage"] = 1; });
  is_corrupt([](auto& ranks) {
    state_of(ranks.optimizer[1]).mutable_dict()["partition_count"] = List{3};
  });
  is_corrupt([](auto& ranks) {
    state_of(ranks.optimizer[0]).mutable_dict()["single_partition_of_fp32_groups"] = List{};
  });
  is_corrupt([](auto& ranks) {
    state_of(ranks.optimizer[0]).mutable_dict()["single_partition_of_fp32_groups"] = List{7};
  });
  is_corrupt([&](auto& ranks) { shape(ranks, {8, 2}); });
  is_corrupt([&](auto& ranks) { shape(ranks, {3}); });
  is_corrupt([&](auto& ranks) { shape(ranks, {-1}); });
  is_corrupt([&](auto& ranks) { shape(ranks, {std::int64_t{1} << 40, std::int64_t{1} << 40}); });
  is_corrupt([](auto& ranks) { ranks.model[0].mutable_dict()["param_shapes"] = List{7}; });
}

}  // namespace
}  // namespace cairn
