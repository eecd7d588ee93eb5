// The parts of a checkpoint of many ranks that each rank writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "cairn/error.h"

#include "checkpoint/sharded/global_plan.h"
#include "checkpoint/sharded/rank_plan.h"
#include "checkpoint/sharded/rank_state.h"
#include "format/dcp/metadata/layout.h"
#include "format/dcp/metadata/metadata.h"
#include "format/dcp/metadata/write_metadata.h"
#include "testing/message_of.h"
#include "testing/sharded_folder.h"
#include "testing/string_sink.h"

namespace cairn::sharded {
namespace {

using testing::message_of;
using testing::part_of_numbers;
using testing::plan_ranks;
using testing::shared;
using testing::slice_of;

using Shape = std::vector<std::int64_t>;

dcp::Box whole_box(const Shape& shape) { return {Dims(shape.size(), 0), shape}; }

dcp::Box row_box(const Shape& shape, std::int64_t begin, std::int64_t rows) {
  dcp::Box box = whole_box(shape);
  box.offsets[0] = begin;
  box.sizes[0] = rows;
  return box;
}

RankState state_of(std::uint32_t rank, std::uint32_t ranks, const Value& tree,
                   std::uint32_t replica = 0) {
  return {{.rank = rank, .world_size = ranks, .replica = replica}, tree};
}

std::vector<bool> writes_of(const GlobalPlan& plan, std::uint32_t rank) {
  return RankPlan::parse(plan.plan_of(rank)).writes;
}

TEST(ShardedPlanTest, EveryRankWritesItsOwnPartAndTheLowestTheObjects) {
  std::vector<RankState> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto [begin, rows] = slice_of(7, rank, 3);
    ranks.push_back(state_of(
        rank, 3,
        Dict{{"w", part_of_numbers({7, 2}, row_box({7, 2}, begin, rows), 0)}, {"step", 3}}));
  }
  const GlobalPlan plan = plan_ranks(ranks);
  EXPECT_EQ(plan.items(), 2U);
  EXPECT_EQ(plan.chunks(), 3U);
  EXPECT_EQ(writes_of(plan, 0), (std::vector<bool>{true, true}));
  EXPECT_EQ(writes_of(plan, 1), (std::vector<bool>{true, false}));
  EXPECT_EQ(plan.bytes_of(2), 8U);
}

// Whole tensors, such as buffers, may differ between ranks.
TEST(ShardedPlanTest, WholeTensorsAreTheLowestRanks) {
  std::vector<RankState> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const Shape shape = {50};
    ranks.push_back(
        state_of(rank, 2,
                 Dict{{"a", part_of_numbers(shape, whole_box(shape), 0)},
                      {"b", part_of_numbers({}, whole_box({}), static_cast<std::int32_t>(rank))}}));
  }
  const GlobalPlan plan = plan_ranks(ranks);
  EXPECT_EQ(writes_of(plan, 0), (std::vector<bool>{true, true}));
  EXPECT_EQ(plan.bytes_of(1), 0U);
}

TEST(ShardedPlanTest, EqualPartsAreSpreadByBytes) {
  std::vector<RankState> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {  // Both ranks have both halves of all tensors.
    Dict tree;
    for (const std::int64_t size : {50, 30, 10, 10}) {  // 50 against 30 + 10 + 10.
      tree["t" + std::to_string(tree.size())] =
          part_of_numbers({2 * size}, row_box({2 * size}, 0, size), 0);
    }
    ranks.push_back(state_of(rank, 2, tree));
    int i = 0;
    for (const std::int64_t size : {50, 30, 10, 10}) {
      ranks.back().add_part("t" + std::to_string(i++),
                            part_of_numbers({2 * size}, row_box({2 * size}, size, size), 0));
    }
  }
  const GlobalPlan plan = plan_ranks(ranks);
  EXPECT_EQ(plan.chunks(), 8U);
  EXPECT_EQ(plan.bytes_of(0), 400U);
  EXPECT_EQ(plan.bytes_of(1), 400U);
  EXPECT_EQ(plan_ranks(ranks).plan_of(1), plan.plan_of(1));
}

TEST(ShardedPlanTest, OfReplicasTheFirstWrites) {
  std::vector<RankState> ranks;
  // Ranks 0 and 1 are the second replica of the model.
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ranks.push_back(state_of(
        rank, 4, Dict{{"w", part_of_numbers({4}, row_box({4}, 2 * (rank % 2), 2), 0)}, {"n", 1}},
        rank < 2 ? 1 : 0));
  }
  const GlobalPlan plan = plan_ranks(ranks);
  EXPECT_EQ(plan.bytes_of(0) + plan.bytes_of(1), 0U);
  EXPECT_EQ(writes_of(plan, 0), (std::vector<bool>{false, false}));
  EXPECT_EQ(writes_of(plan, 2), (std::vector<bool>{true, true}));
  EXPECT_EQ(writes_of(plan, 3), (std::vector<bool>{true, false}));
}

TEST(ShardedPlanTest, PartsThatOverlapOrAreMissingAreNamedWithTheirRanks) {
  const auto message = [](const Shape& shape, const dcp::Box& first, const dcp::Box& second) {
    std::vector<RankState> ranks;
    ranks.push_back(state_of(0, 2, Dict{{"a", Dict{{"w", part_of_numbers(shape, first, 0)}}}}));
    ranks.push_back(state_of(1, 2, Dict{{"a", Dict{{"w", part_of_numbers(shape, second, 0)}}}}));
    EXPECT_THROW(plan_ranks(ranks), UsageError);
    return message_of([&] { plan_ranks(ranks); });
  };
  EXPECT_EQ(message({6, 2}, row_box({6, 2}, 0, 4), row_box({6, 2}, 3, 3)),
            "tensor \"a.w\" of size (6, 2): rank 0 has (4, 2) at (0, 0) and rank 1 has (3, 2) at "
            "(3, 0), which overlap; parts of a tensor must be equal, or apart");
  EXPECT_EQ(message({6, 2}, row_box({6, 2}, 0, 2), row_box({6, 2}, 3, 3)),
            "tensor \"a.w\" of size (6, 2): no rank has (1, 2) at (2, 0); rank 0 has (2, 2) at "
            "(0, 0), rank 1 has (3, 2) at (3, 0); every element must be on some rank");
  EXPECT_EQ(message({2, 2}, {{0, 0}, {1, 1}}, {{0, 1}, {2, 1}}),
            "tensor \"a.w\" of size (2, 2): no rank has (1, 1) at (1, 0); rank 0 has (1, 1) at "
            "(0, 0), rank 1 has (2, 1) at (0, 1); every element must be on some rank");
  EXPECT_NE(message({2, 2}, {{0, 0}, {2, 1}}, {{1, 0}, {1, 2}}).find("which overlap"),
            std::string::npos);
  EXPECT_NE(message({6}, row_box({6}, 0, 0), row_box({6}, 6, 0)).find("no rank has (6) at (0)"),
            std::string::npos);
}

TEST(ShardedPlanTest, WhatRanksSayDifferentlyIsNamedWithTheirRanks) {
  const auto message = [](const Value& first, const Value& second) {
    const std::vector<RankState> ranks = {state_of(0, 2, first), state_of(1, 2, second)};
    EXPECT_THROW(plan_ranks(ranks), UsageError);
    return message_of([&] { plan_ranks(ranks); });
  };
  const TensorView five = part_of_numbers({5}, whole_box({5}), 0);
  const TensorView six = part_of_numbers({6}, whole_box({6}), 0);
  EXPECT_EQ(message(Dict{{"w", five}}, Dict{{"w", six}}),
            "\"w\" is int32 (5) on rank 0, and int32 (6) on rank 1");
  EXPECT_EQ(message(Dict{{"w", five}}, Dict{{"w", 1}}),
            "\"w\" is int32 (5) on rank 0, and an object on rank 1");
  EXPECT_EQ(message(Dict{{"a", Dict{{"b", 1}}}}, Dict{{"a.b", 1}}),
            "two items are named \"a.b\" when their keys are joined by dots, one on rank 0 and one "
            "on rank 1");
  EXPECT_NE(
      message(Dict{{"a", Dict{{"b", 1}}}}, Dict{{"a", 1}}).find("does not fit the items of other"),
      std::string::npos);
}

TEST(ShardedPlanTest, EveryRankDescribesItselfOnce) {
  const Value tree = Dict{{"n", 1}};
  const auto message = [](const std::vector<RankState>& ranks) {
    return message_of([&] { plan_ranks(ranks); });
  };
  EXPECT_EQ(message({state_of(0, 2, tree), state_of(0, 2, tree)}),
            "rank 0 sent its description twice");
  EXPECT_EQ(message({state_of(0, 2, tree)}),
            "rank 0 says that there are 2 ranks, but descriptions of 1 are there");
  EXPECT_EQ(message_of([&] { GlobalPlan({}, {describe(state_of(0, 1, tree)).parts}); }),
            "the names of the items of rank 0 are missing");
}

TEST(ShardedPlanTest, WhatMetadataCannotHoldIsRefusedBeforeAnythingIsWritten) {
  const auto refused = [](const Value& tree) {
    EXPECT_THROW(state_of(0, 1, tree), UnsupportedError);
  };
  refused(List{1});
  refused(Dict{{1.5, 1}});
  refused(Dict{{std::string(65537, 'n'), 1}});
  refused(Dict{{"\xff", 1}});
  TensorView quantized = make_tensor(DType::kQInt8, {2}, shared("ab"));
  quantized.quantizer = std::make_shared<const Quantizer>();
  refused(Dict{{"w", quantized}});
  TensorView outside = part_of_numbers({4}, row_box({4}, 2, 2), 0);
  outside.part = std::make_shared<const TensorPart>(TensorPart{{4}, {3}});
  EXPECT_THROW(state_of(0, 1, Dict{{"w", outside}}), UsageError);
  EXPECT_THROW(state_of(2, 2, Dict{}), UsageError);
}

TEST(ShardedPlanTest, NamesAreOneTextOnAllRanksThatHaveTheSameItems) {
  std::vector<Description> descriptions;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    RankState state =
        state_of(rank, 2, Dict{{"w", part_of_numbers({4}, row_box({4}, 2 * rank, 2), 0)}});
    state.add_own("rng", Dict{{"torch", static_cast<int>(rank)}});
    descriptions.push_back(describe(state));
  }
  EXPECT_EQ(descriptions[0].names, descriptions[1].names);
  const GlobalPlan plan({descriptions[0].names}, {descriptions[1].parts, descriptions[0].parts});
  EXPECT_EQ(plan.items(), 3U);  // "rng.0.torch", "rng.1.torch"
  EXPECT_EQ(writes_of(plan, 1), (std::vector<bool>{true, true}));
}

// Whatever bytes arrive instead of `text`, `use` throws a typed error, or ignores them.
template <class Use>
void expect_typed_errors(const std::string& text, const Use& use) {
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(use(text.substr(0, size)), Error) << size;
  }
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      use(flipped);
    } catch (const Error&) {
      continue;
    }
  }
}

TEST(ShardedPlanTest, DamagedTextsAreTypedErrors) {
  std::vector<RankState> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.push_back(state_of(
        rank, 2,
        Dict{{"m", Dict{{"w", part_of_numbers({4, 300}, row_box({4, 300}, 2 * rank, 2), 0)}}},
             {"n", 1}}));
    ranks.back().add_own("rng", Dict{{"torch", 1}});
  }
  const Description first = describe(ranks[0]);
  const Description second = describe(ranks[1]);
  expect_typed_errors(first.names, [&](const std::string& text) {
    GlobalPlan({text}, {first.parts, second.parts});
  });
  expect_typed_errors(first.names, [&](const std::string& text) { parse_names(text); });
  expect_typed_errors(first.parts, [&](const std::string& text) {
    GlobalPlan({first.names}, {text, second.parts});
  });
  expect_typed_errors(second.parts, [&](const std::string& text) {
    GlobalPlan({first.names}, {first.parts, text});
  });
  const GlobalPlan plan = plan_ranks(ranks);
  expect_typed_errors(plan.plan_of(0),
                      [&](const std::string& text) { const RankFiles files(ranks[0], text); });
  std::vector<std::string> reports;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const RankFiles files(ranks[rank], plan.plan_of(rank));
    reports.push_back(files.report(std::vector<std::string>(files.count(), std::string(32, 'a'))));
  }
  expect_typed_errors(reports[1], [&](const std::string& text) {
    plan.metadata({reports[0], text});
  });
}

TEST(ShardedPlanTest, APlanOrReportOfAnotherSaveIsRefused) {
  const auto ranks_of = [](std::int64_t rows) {
    std::vector<RankState> ranks;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      ranks.push_back(state_of(
          rank, 2,
          Dict{{"w",
                part_of_numbers(
                    {4}, row_box({4}, rank == 0 ? 0 : rows, rank == 0 ? rows : 4 - rows), 0)}}));
    }
    return ranks;
  };
  const std::vector<RankState> now = ranks_of(2);
  const std::vector<RankState> before = ranks_of(3);
  const GlobalPlan plan = plan_ranks(now);
  const GlobalPlan old = plan_ranks(before);
  EXPECT_THROW(RankFiles(now[0], old.plan_of(0)), UsageError);
  EXPECT_THROW(RankFiles(now[0], plan.plan_of(1)), UsageError);
  EXPECT_THROW(plan.plan_of(2), UsageError);
  const auto report = [](const RankState& state, const std::string& text) {
    return RankFiles(state, text).report({std::string(32, 'a')});
  };
  const std::string mine = report(now[0], plan.plan_of(0));
  EXPECT_EQ(message_of([&] {
              plan.metadata({mine, report(before[1], old.plan_of(1))});
            }),
            "rank 1 followed another plan than this save's");
  EXPECT_EQ(message_of([&] { plan.metadata({mine}); }),
            "rank 1 did not report what it has written");
  EXPECT_EQ(message_of([&] {
              plan.files({mine, mine});
            }),
            "rank 0 reported twice what it has written");
}

TEST(ShardedPlanTest, MetadataSaysWhereEveryChunkIs) {
  std::vector<RankState> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto [begin, rows] = slice_of(4, rank, 3);  // 2, 2, 0
    ranks.push_back(state_of(
        rank, 3,
        Dict{{"state",
              Dict{{"model",
                    Dict{{"0.weight", part_of_numbers({4, 2}, row_box({4, 2}, begin, rows), 0)}}}}},
             {"none", part_of_numbers({0, 3}, whole_box({0, 3}), 0)}}));
    ranks.back().add_own("rng", Dict{{"torch", static_cast<int>(rank)}});
  }
  const GlobalPlan plan = plan_ranks(ranks);
  std::vector<std::string> reports;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const RankFiles files(ranks[rank], plan.plan_of(rank));
    reports.push_back(files.report(std::vector<std::string>(files.count(), std::string(32, 'a'))));
  }
  const dcp::Metadata metadata =
      dcp::parse_metadata(shared(plan.metadata(reports, {.file_names = {}, .save_id = "attempt"})));
  EXPECT_EQ(metadata.version, "1.0.0");
  ASSERT_EQ(metadata.items.size(), 5U);
  const dcp::Item& weight = metadata.items[0];
  EXPECT_EQ(weight.fqn, "state.model.0.weight");
  EXPECT_EQ(weight.path, (std::vector<dcp::PathPart>{"state", "model", "0.weight"}));
  ASSERT_EQ(weight.chunks.size(), 2U);  // No chunk for the empty slice.
  EXPECT_EQ(weight.chunks[1].box, (dcp::Box{{2, 0}, {2, 2}}));
  EXPECT_EQ(weight.chunks[1].location.file, "__1_0.distcp");
  EXPECT_EQ(metadata.items[1].chunks.size(), 1U);
  EXPECT_EQ(metadata.items[4].path, (std::vector<dcp::PathPart>{"rng", std::int64_t{2}, "torch"}));
  EXPECT_EQ(metadata.items[4].chunks[0].location.file, "__2_0.distcp");
}

TEST(ShardedPlanTest, AnObjectOfAnotherSizeMovesNoTensor) {
  const auto places_of = [](std::size_t size, std::size_t files) {
    Dict tree;
    tree["a counter"] = std::string(size, 'c');
    for (std::int64_t rows = 1; rows < 6; ++rows) {
      tree["t" + std::to_string(rows)] = part_of_numbers({rows}, whole_box({rows}), 0);
      tree["o" + std::to_string(rows)] = std::string(size * static_cast<std::size_t>(rows), 'o');
    }
    const std::vector<RankState> ranks = {state_of(0, 1, tree)};
    const std::string text = plan_ranks(ranks).plan_of(0);
    const RankFiles written(ranks[0], text, {.files = files});
    const auto report = RankReport::parse(
        written.report(std::vector<std::string>(written.count(), std::string(32, 'a'))));
    std::vector<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> places;
    for (std::size_t i = 0; i < report.places.size(); ++i) {
      const auto& [file, offset, bytes] = report.places[i];
      if (ranks[0].items()[i].header.dtype) places.emplace_back(file, offset, bytes);
    }
    return places;
  };
  for (const std::size_t files : {1, 3}) {
    const auto places = places_of(1, files);
    EXPECT_EQ(places.size(), 5U);
    EXPECT_EQ(places_of(1000, files), places);
  }
}

// A sink that accepts no large piece.
class Pieces final : public ByteSink {
 public:
  void write(ByteView bytes) override {
    EXPECT_LE(bytes.size(), std::size_t{1} << 20);
    text += as_text(bytes);
    ++count;
  }
  std::string text;
  std::size_t count = 0;
};

TEST(ShardedPlanTest, MetadataOfManyChunksIsTheSamePiecesEachTime) {
  constexpr std::uint32_t kRanks = 8;
  std::vector<RankState> ranks;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    Dict tree;
    for (std::int64_t i = 0; i < 700; ++i) {
      const Shape shape = {200 + 500 * i, 1};
      const auto [begin, rows] = slice_of(shape[0], rank, kRanks);
      TensorView part = part_of_numbers({1, 1}, whole_box({1, 1}), 0);
      part.shape[0] = rows;
      part.strides = {0, 1};  // The strides of one element are enough for these tests.
      part.part = std::make_shared<const TensorPart>(TensorPart{shape, {begin, 0}});
      tree["t" + std::to_string(i)] = part;
    }
    tree["whole"] = part_of_numbers({3}, whole_box({3}), 0);
    tree["step"] = 7;
    ranks.push_back(state_of(rank, kRanks, tree));
  }
  const GlobalPlan plan = plan_ranks(ranks);
  std::vector<std::string> reports;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    const RankFiles files(ranks[rank], plan.plan_of(rank));
    reports.push_back(files.report(std::vector<std::string>(files.count(), std::string(32, 'a'))));
  }
  std::ranges::reverse(reports);
  const auto content = plan.content({reports.begin(), reports.end()});
  Pieces first;
  dcp::write_metadata(*content, first);
  EXPECT_GT(first.count, 2U);
  Pieces again;
  dcp::write_metadata(*content, again);
  EXPECT_TRUE(again.text == first.text);
  EXPECT_TRUE(plan.metadata(reports) == first.text);
  dcp::Metadata read = dcp::parse_metadata(shared(first.text));
  ASSERT_EQ(read.items.size(), 702U);
  for (dcp::Item& item : read.items) {
    const bool is_cut = item.fqn.starts_with("t");
    ASSERT_EQ(item.chunks.size(), is_cut ? kRanks : 1) << item.fqn;
    dcp::check_layout(item);
    for (std::size_t i = 0; i < item.chunks.size(); ++i) {
      ASSERT_EQ(item.chunks[i].location.file, data_file_name(static_cast<std::uint32_t>(i), 0));
    }
  }
}

TEST(ShardedPlanTest, NumbersOfEveryLengthAreReadWhereverTheTextEnds) {
  std::vector<std::uint64_t> numbers = {0};
  for (unsigned bits = 0; bits < 64; ++bits) {
    for (const std::uint64_t near : {0, 1, 2}) {
      numbers.push_back((std::uint64_t{1} << bits) + near - 1);
    }
  }
  numbers.push_back(~std::uint64_t{0});
  for (std::size_t from = 0; from < numbers.size(); ++from) {
    PackedWriter out;
    for (std::size_t i = from; i < numbers.size() && i < from + 3; ++i) {
      out.number(numbers[i]);
    }
    const std::string text = out.take();
    PackedReader in(text, "a text");
    for (std::size_t i = from; i < numbers.size() && i < from + 3; ++i) {
      EXPECT_EQ(in.number(), numbers[i]);
    }
    in.expect_end();
    PackedReader torn(std::string_view(text).substr(0, 0), "a text");
    EXPECT_EQ(message_of([&] { torn.number(); }), "a text ends too early");
  }
  PackedReader endless(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "a text");
  EXPECT_EQ(message_of([&] { endless.number(); }), "a text has a number of more than 64 bits");
}

TEST(ShardedPlanTest, TheFilesOfThousandsOfRanksFitTheFoldersManifest) {
  std::vector<ManifestFile> files;
  for (std::uint32_t rank = 0; rank < 4096; ++rank) {
    files.push_back({data_file_name(rank, 0), 1U << 30, std::string(32, 'a')});
  }
  EXPECT_EQ(parse_folder_manifest(write_folder_manifest({.files = files})).files.size(),
            files.size());
}

}  // namespace
}  // namespace cairn::sharded
