// Writing torch.distributed.checkpoint folders: the content is the flattened tree, and the reader
// returns it. (In tests/data/README.md, cairn/dcp shows that PyTorch loads such a folder.)
#include "format/dcp/folder_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cairn/error.h"

#include "format/dcp/data_plan.h"
#include "format/dcp/folder.h"
#include "format/stream_plan.h"
#include "testing/message_of.h"
#include "testing/storage_ranges.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"

namespace cairn::dcp {
namespace {

using testing::shared;
using testing::source_with;
using testing::StringSink;
using testing::wrong_range_of;
using Files = std::map<std::string, std::string>;

Files written(const Value& root) {
  const FolderPlan plan(root);
  StringSink data;
  stream_plan(plan.data(), data);
  EXPECT_EQ(data.text.size(), plan.data().size());
  return {{kDataFile, data.text}, {kMetadataFile, plan.metadata()}};
}

Value read_back(const Files& files) {
  const auto open = [&](const std::string& name) { return source_with(files.at(name), name); };
  return Folder::open(parse_metadata(shared(files.at(kMetadataFile))), open)->read();
}

TensorView floats(std::vector<std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  std::string bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<float>(i);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return make_tensor(DType::kFloat32, std::move(shape), shared(bytes));
}

// The example of docs/formats/dcp.md.
Value small_tree() { return Dict{{"w", floats({2, 3})}, {"step", 7}}; }

TEST(FolderPlanTest, WhatIsWrittenIsReadBack) {
  TensorView transposed = floats({2, 3});
  transposed.shape = {3, 2};
  transposed.strides = {1, 3};
  TensorView row = floats({4, 5});
  row.shape = {5};
  row.strides = {1};
  row.storage_offset = 10;
  row.requires_grad = true;
  TensorView scalar = floats({});
  const Value tree = Dict{
      {"model", Dict{{"0.weight", transposed}, {"row", row}, {"none", floats({0, 4})}}},
      {"list", List{1, Dict{{"x", scalar}}, List{"two", floats({1})}}},
      {"plain list", List{1, 2, List{}}},
      {"tuple", Tuple{{1.5, None{}, "three"}}},
      {"text", "zeichen"},
  };
  EXPECT_EQ(read_back(written(tree)), tree);
}

TEST(FolderPlanTest, KeysBecomeTextsAndEmptyDictsVanish) {
  const Value tree = Dict{{"state", Dict{{0, Dict{{"m", floats({2})}}}, {true, 1}, {None{}, 2}}},
                          {"empty", Dict{}},
                          {"ordered", Dict::ordered({{"a", 1}})}};
  EXPECT_EQ(read_back(written(tree)),
            Value(Dict{{"state", Dict{{"0", Dict{{"m", floats({2})}}}, {"True", 1}, {"None", 2}}},
                       {"ordered", Dict{{"a", 1}}}}));
}

TEST(FolderPlanTest, WhatCannotBeFlattenedIsRefused) {
  EXPECT_THROW(FolderPlan(List{1}), UnsupportedError);
  EXPECT_THROW(FolderPlan(Dict{{1.5, 1}}), UnsupportedError);
  EXPECT_THROW(FolderPlan(Dict{{"a", Dict{{"b.c", 1}}}, {"a.b", Dict{{"c", 2}}}}),
               UnsupportedError);
  TensorView quantized = make_tensor(DType::kQInt8, {2}, shared("ab"));
  quantized.quantizer = std::make_shared<const Quantizer>();
  EXPECT_THROW(FolderPlan(Dict{{"w", quantized}}), UnsupportedError);
}

// A matrix of five rows: rank 0 has rows 0 to 2, rank 1 has rows 3 and 4.
TensorView rows_of_rank(int rank) {
  TensorView rows = floats({rank == 0 ? 3 : 2, 2});
  rows.part = std::make_shared<const TensorPart>(
      TensorPart{.global_shape = {5, 2}, .offsets = {rank == 0 ? 0 : 3, 0}});
  return rows;
}

TEST(FolderPlanTest, WhatStandsAtSeveralPlacesIsAnItemAtEach) {
  const Value shared_dict = Dict{{"x", 1}, {"list", List{List{2}, Dict{{"y", 3}}}}};
  const Value tree = Dict{{"a", shared_dict}, {"b", Dict{{"c", shared_dict}}}};
  EXPECT_EQ(read_back(written(tree)), tree);
}

// Dicts that each contain the next dict twice. A pickle of a few hundred bytes can hold them.
TEST(FolderPlanTest, ATreeOfMorePlacesThanThereIsMemoryForIsRefused) {
  Value dicts = Dict{{"x", 1}};
  Value lists = Dict{};
  Value nothing = List{1};
  for (int i = 0; i < 100; ++i) {
    dicts = Dict{{"a", dicts}, {"b", dicts}};
    lists = List{lists, lists};
    nothing = List{nothing, nothing};
  }
  for (const Value& tree : {dicts, lists}) {
    EXPECT_THAT(testing::message_of<UnsupportedError>([&] {
                  flatten(Dict{{"tree", tree}});
                }),
                ::testing::HasSubstr("repeats values"));
  }
  EXPECT_EQ(flatten(Dict{{"tree", nothing}}).size(), 1U);  // lists of numbers are one item
}

// Each item is encoded separately.
TEST(FolderPlanTest, BytesThatStandInMoreItemsThanThereIsMemoryForAreRefused) {
  const Value bytes = Bytes{std::string(1 << 20, 'x')};
  Dict as_items;
  Dict in_items;
  Dict few;
  for (int i = 0; i < 1000; ++i) {
    as_items.set(std::to_string(i), bytes);
    in_items.set(std::to_string(i), Tuple{{i, bytes}});
    if (i < 10) few.set(std::to_string(i), Tuple{{i, bytes}});
  }
  EXPECT_THROW(FolderPlan{as_items}, UnsupportedError);
  EXPECT_THROW(FolderPlan{in_items}, UnsupportedError);
  EXPECT_NO_THROW(FolderPlan{few});
}

TEST(FolderPlanTest, PartsOfATensorSayWhereTheyBelongAndAreTheWholeTogether) {
  Files files;
  std::vector<Metadata> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    const Files written_by_rank = written(Dict{{"w", rows_of_rank(rank)}});
    Metadata metadata = parse_metadata(shared(written_by_rank.at(kMetadataFile)));
    ASSERT_EQ(metadata.items.size(), 1U);
    Item& item = metadata.items.front();
    EXPECT_EQ(item.size, (Dims{5, 2}));
    ASSERT_EQ(item.chunks.size(), 1U);
    EXPECT_EQ(item.chunks.front().box, (Box{{rank == 0 ? 0 : 3, 0}, {rank == 0 ? 3 : 2, 2}}));
    // Each rank has its own data file.
    item.chunks.front().location.file = rank == 0 ? "__0_0.distcp" : "__1_0.distcp";
    files[std::string(item.chunks.front().location.file)] = written_by_rank.at(kDataFile);
    ranks.push_back(std::move(metadata));
  }
  const auto open = [&](const std::string& name) { return source_with(files.at(name), name); };
  const Value whole = Folder::open(merge_metadata(std::move(ranks)), open)->read();
  std::vector<float> numbers(10);
  whole.at("w").as_tensor().storage->read_into(0, std::as_writable_bytes(std::span(numbers)));
  EXPECT_EQ(numbers, (std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3}));
  EXPECT_EQ(wrong_range_of(*whole.at("w").as_tensor().storage), "");
}

TEST(FolderPlanTest, APartThatDoesNotFitItsTensorIsAUsageError) {
  TensorView part = rows_of_rank(1);
  part.part = std::make_shared<const TensorPart>(TensorPart{{5, 2}, {4, 0}});
  EXPECT_THROW(FolderPlan(Dict{{"w", part}}), UsageError);
  part.part = std::make_shared<const TensorPart>(TensorPart{{5}, {3}});
  EXPECT_THROW(FolderPlan(Dict{{"w", part}}), UsageError);
}

// A layout is reused for the next tensor of the same kind.
TEST(FolderPlanTest, ADataFileTakesATensorAsAChunkAlone) {
  TensorView part = floats({2, 3});
  part.shape = {3};
  part.strides = {1};
  TensorView behind = floats({3});
  behind.shape = {2};
  behind.storage_offset = 1;
  TensorView parameter = floats({2});
  parameter.is_parameter = true;
  TensorView trained = floats({2});
  trained.requires_grad = true;
  for (const TensorView& tensor : {part, behind, parameter, trained}) {
    DataPlan plan;
    EXPECT_THROW(plan.add(tensor, "w"), UsageError);
    plan.add(as_chunk(tensor, {}), "w");
    EXPECT_EQ(plan.parts().size(), 1U);
  }
}

TEST(FolderPlanTest, ElementsThatAreWrittenInOrderAreReadInAnyPart) {
  TensorView transposed = floats({2, 3});
  transposed.shape = {3, 2};
  transposed.strides = {1, 3};
  const FolderPlan plan(Dict{{"w", transposed}});
  ASSERT_EQ(plan.data().parts().size(), 1U);
  EXPECT_EQ(wrong_range_of(*plan.data().parts().front().storage), "");
}

TEST(FolderPlanTest, IsWrittenTheSameOnEveryMachine) {
  const std::string golden = std::string(CAIRN_TEST_DATA) + "/cairn/dcp/";
  for (const auto& [name, bytes] : written(small_tree())) {
    EXPECT_EQ(bytes, testing::read_file(golden + name)) << name;
  }
}

}  // namespace
}  // namespace cairn::dcp
