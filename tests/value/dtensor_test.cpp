// find_dtensor() reads the shard of a distributed tensor from one rank's file.
#include "cairn/dtensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "testing/file_bytes.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"
#include "tests/format/dtensor_text.h"

namespace cairn {
namespace {

using testing::dtensor;
using testing::DTensorText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kData;
using testing::TempFolder;

const std::string kFiles = kData + "/torch-2.14/dtensor/";

Value read_pickle(const std::string& body) {
  const TempFolder temp;
  testing::write_file(temp / "in.pt", testing::torch_file_of(testing::pickle(body)));
  // Some of them claim shapes that no file could contain.
  return load(temp / "in.pt", {.most_repetition = std::nullopt});
}

std::string refusal(const DTensorText& text) {
  const Value value = read_pickle(dtensor(text));
  try {
    find_dtensor(value.as_foreign());
  } catch (const CorruptError& e) {
    return e.what();
  }
  return "no error";
}

TEST(DTensorTest, AFileOfFsdp2SaysShapePlacementMeshAndShard) {
  const Value state = load(kFiles + "fsdp2-rank1.pt");
  const auto tensor = find_dtensor(state.at("model").at("0.weight").as_foreign());
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->class_name, "torch.distributed.tensor.DTensor");
  EXPECT_EQ(tensor->shape, Dims({5, 3}));
  EXPECT_EQ(tensor->local.shape, Dims({2, 3}));
  EXPECT_EQ(tensor->mesh.shape, Dims({2}));
  EXPECT_EQ(tensor->mesh.device_type, "cpu");
  EXPECT_EQ(tensor->mesh.coordinate, Dims({1}));
  EXPECT_EQ(mesh_ranks(tensor->mesh), Dims({0, 1}));
  EXPECT_EQ(placement_text(*tensor), "[2, 3] of [5, 3], (Shard(0)) at (1) of a mesh (2)");
}

TEST(DTensorTest, AMeshOfTwoDimensionsHasNamesAndOnePlacementForEach) {
  const Value state = load(kFiles + "strided-rank2.pt");
  const auto tensor = find_dtensor(state.at("0.weight").as_foreign());
  ASSERT_TRUE(tensor);
  EXPECT_THAT(tensor->mesh.dim_names, ElementsAre("dp", "tp"));
  EXPECT_EQ(placement_text(*tensor),
            "[2, 4] of [8, 4], (_StridedShard(0, split_factor=2), Shard(0)) at (1, 0) of a mesh "
            "(2, 2)");
}

// A norm that only FSDP shards is distributed over one column of the mesh.
TEST(DTensorTest, RanksOfAPartOfALargerMeshAreThoseOfTheJob) {
  const Value state = load(kFiles + "strided-rank3.pt");
  const auto tensor = find_dtensor(state.at("2.weight").as_foreign());
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->mesh.shape, Dims({2}));
  EXPECT_EQ(mesh_ranks(tensor->mesh), Dims({1, 3}));
}

TEST(DTensorTest, TheModulesOfOlderReleasesAreKnown) {
  for (const char* module : {"torch.distributed._tensor.api", "torch.distributed._tensor",
                             "torch.distributed.tensor._api", "torch.distributed.tensor"}) {
    const Value value = read_pickle(dtensor({.module = module}));
    const auto tensor = find_dtensor(value.as_foreign());
    ASSERT_TRUE(tensor) << module;
    EXPECT_EQ(tensor->class_name, std::string(module) + ".DTensor");
    EXPECT_EQ(placement_text(*tensor), "[2, 2] of [4, 2], (Shard(0)) at (1) of a mesh (2)");
    EXPECT_TRUE(tensor->requires_grad);
    EXPECT_EQ(mesh_ranks(tensor->mesh), Dims({0, 1}));
  }
}

TEST(DTensorTest, ARankOutsideOfTheMeshHasNoCoordinate) {
  const Value value = read_pickle(dtensor({.coordinate = "N"}));
  const auto tensor = find_dtensor(value.as_foreign());
  ASSERT_TRUE(tensor);
  EXPECT_EQ(placement_text(*tensor), "[2, 2] of [4, 2], (Shard(0)) outside of its mesh (2)");
}

TEST(DTensorTest, OfAPlacementThatNobodyKnowsOnlyTheShardIsKnown) {
  const Value value = read_pickle(dtensor({.placements = testing::placement("Ragged") + "\x85"}));
  EXPECT_FALSE(find_dtensor(value.as_foreign()));
  ASSERT_NE(local_tensor(value), nullptr);
  EXPECT_EQ(local_tensor(value)->shape, Dims({2, 2}));
}

TEST(DTensorTest, WhatContradictsItselfIsDamage) {
  using namespace std::string_literals;  // NOLINT
  const std::string minus_one = testing::int32(-1);
  const std::string huge = testing::int64(std::int64_t{1} << 40);
  EXPECT_THAT(refusal({.shape = minus_one + "K\2\x86"}), HasSubstr("a shape (-1, 2)"));
  EXPECT_THAT(refusal({.shape = huge + huge + "\x86"}), HasSubstr("a shape"));
  EXPECT_THAT(refusal({.shape = "K\4\x85"s}), HasSubstr("[2, 2] of [4]"));
  EXPECT_THAT(refusal({.dtype = testing::global("torch", "int8")}),
              HasSubstr("a int8 with a shard of float32"));
  EXPECT_THAT(refusal({.mesh_shape = huge + "\x85", .mesh_strides = "K\0\x85"s}),
              HasSubstr("a mesh (1099511627776)"));
  EXPECT_THAT(refusal({.mesh_shape = "K\0\x85"s}), HasSubstr("a mesh without ranks"));
  EXPECT_THAT(refusal({.placements = testing::shard(minus_one) + "\x85"}), HasSubstr("Shard(-1)"));
  EXPECT_THAT(refusal({.placements = testing::shard("K\2"s) + "\x85"}), HasSubstr("Shard(2)"));
  EXPECT_THAT(refusal({.placements = ")"}), HasSubstr("0 placements on a mesh (2)"));
  EXPECT_THAT(refusal({.placements = testing::strided_shard("K\0"s, huge) + "\x85"}),
              HasSubstr("split_factor=1099511627776"));
  EXPECT_THAT(refusal({.placements = testing::strided_shard("K\0"s, "K\0"s) + "\x85"}),
              HasSubstr("split_factor=0"));
  EXPECT_THAT(refusal({.coordinate = "]K\2a"s}), HasSubstr("at (2) of a mesh (2)"));
  EXPECT_THAT(refusal({.coordinate = "]"}), HasSubstr("at () of a mesh (2)"));
  EXPECT_THAT(refusal({.more = testing::unicode("shard_order") + "K\0K\7\x85\x86\x85"s}),
              HasSubstr("a shard order with dimension 7"));
}

}  // namespace
}  // namespace cairn
