// Checkpoints of many ranks: any number of ranks writes them, and any other number reads them.
#include "cairn/checkpoint/sharded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"

#include "checkpoint/sharded/global_plan.h"
#include "checkpoint/sharded/rank_files.h"
#include "format/dcp/flatten.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/sharded_folder.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

using sharded::RankState;
using testing::box_of_numbers;
using testing::kData;
using testing::message_of;
using testing::part_of_numbers;
using testing::slice_of;
using testing::StoreCall;
using testing::TempFolder;
using testing::WatchedStore;
using testing::write_ranks;

using Shape = std::vector<std::int64_t>;

dcp::Box all_of(const Shape& shape) { return {Dims(shape.size(), 0), shape}; }

dcp::Box rows_of(const Shape& shape, std::int64_t rank, std::int64_t ranks, std::size_t d = 0) {
  dcp::Box box = all_of(shape);
  std::tie(box.offsets[d], box.sizes[d]) = slice_of(shape[d], rank, ranks);
  return box;
}

// --- Placements: the box of a tensor that each rank has ------------------------------------------

using Placement = std::vector<dcp::Box>;  // By rank.

// A random way in which ranks share a tensor:
//
//   - as whole copies;
//   - by FSDP's slices of a dimension;
//   - by slices of any size, also empty, in any order of ranks;
//   - as a mesh of two dimensions;
//   - in any of these ways among the first ranks, with copies on the other ranks (hybrid sharding).
class RandomPlacement {
 public:
  RandomPlacement(std::mt19937& random, const Shape& shape) : random_(random), shape_(shape) {}

  Placement among(std::int64_t ranks) {
    const auto dims = static_cast<std::int64_t>(shape_.size());
    const std::int64_t kind = dims == 0 ? 0 : pick(0, 4);
    if (kind == 0) return Placement(static_cast<std::size_t>(ranks), all_of(shape_));
    const auto d = static_cast<std::size_t>(pick(0, dims - 1));
    if (kind == 1) return slices(ranks, d);
    if (kind == 2) return uneven(ranks, d);
    for (std::int64_t rows = 2; rows < ranks; ++rows) {
      if (ranks % rows != 0) continue;
      return kind == 3 ? mesh(rows, ranks / rows) : copies(rows, ranks / rows);
    }
    return slices(ranks, d);
  }

 private:
  std::int64_t pick(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random_);
  }

  Placement slices(std::int64_t ranks, std::size_t d) {
    Placement boxes;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      boxes.push_back(rows_of(shape_, rank, ranks, d));
    }
    return boxes;
  }

  Placement uneven(std::int64_t ranks, std::size_t d) {
    std::vector<std::int64_t> cuts = {0, shape_[d]};
    for (std::int64_t i = 1; i < ranks; ++i) {
      cuts.push_back(pick(0, shape_[d]));
    }
    std::sort(cuts.begin(), cuts.end());
    Placement boxes;
    for (std::size_t i = 1; i < cuts.size(); ++i) {
      boxes.push_back(all_of(shape_));
      boxes.back().offsets[d] = cuts[i - 1];
      boxes.back().sizes[d] = cuts[i] - cuts[i - 1];
    }
    std::shuffle(boxes.begin(), boxes.end(), random_);
    return boxes;
  }

  Placement mesh(std::int64_t rows, std::int64_t columns) {
    const std::size_t last = shape_.size() - 1;
    Placement boxes;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        dcp::Box box = rows_of(shape_, row, rows);
        // The mesh's second dimension may cut the rows that its first dimension left.
        const std::int64_t begin = last == 0 ? box.offsets[0] : 0;
        const auto [offset, size] = slice_of(box.sizes[last], column, columns);
        box.offsets[last] = begin + offset;
        box.sizes[last] = size;
        boxes.push_back(box);
      }
    }
    return boxes;
  }

  Placement copies(std::int64_t times, std::int64_t ranks) {
    const Placement one = among(ranks);
    Placement boxes;
    for (std::int64_t i = 0; i < times; ++i) {
      boxes.insert(boxes.end(), one.begin(), one.end());
    }
    return boxes;
  }

  std::mt19937& random_;
  const Shape& shape_;
};

// Tensors "t0", "t1", ... with the salts 0, 1000, ...
struct RandomState {
  explicit RandomState(std::mt19937& random) : random_(random) {
    const auto pick = [&](int from, int to) {
      return std::uniform_int_distribution<int>(from, to)(random_);
    };
    for (int i = pick(1, 8); i > 0; --i) {
      Shape& shape = shapes.emplace_back();
      for (int d = pick(0, 3); d > 0; --d) {
        shape.push_back(pick(pick(0, 9) == 0 ? 0 : 1, 13));
      }
    }
  }

  std::vector<Placement> place(std::int64_t ranks) {
    std::vector<Placement> all;
    for (const Shape& shape : shapes) {
      all.push_back(RandomPlacement(random_, shape).among(ranks));
    }
    return all;
  }

  static std::int32_t salt(std::size_t tensor) { return static_cast<std::int32_t>(1000 * tensor); }
  static std::string name(std::size_t tensor) { return "t" + std::to_string(tensor); }

  std::vector<RankState> ranks(std::uint32_t count) {
    const std::vector<Placement> places = place(count);
    std::vector<RankState> states;
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      Dict model;
      for (std::size_t t = 0; t < shapes.size(); ++t) {
        model[name(t)] = part_of_numbers(shapes[t], places[t][rank], salt(t));
      }
      states.emplace_back(sharded::RankPlace{.rank = rank, .world_size = count},
                          Dict{{"state", Dict{{"model", model}, {"step", 7}}}});
      states.back().add_own("rng", Dict{{"torch", static_cast<int>(rank)}});
    }
    return states;
  }

  std::vector<Shape> shapes;

 private:
  std::mt19937& random_;
};

// Reads a part of every tensor in one call. Returns the problem found, or "".
std::string wrong_part(const Checkpoint& checkpoint, const RandomState& state,
                       const std::vector<dcp::Box>& boxes, Verify how) {
  std::vector<std::vector<std::int32_t>> places(boxes.size());
  std::vector<PartRead> reads;
  for (std::size_t t = 0; t < boxes.size(); ++t) {
    const auto expected = box_of_numbers(state.shapes[t], boxes[t], RandomState::salt(t));
    places[t].assign(expected.size(), -1);
    reads.push_back({.name = "state.model." + RandomState::name(t),
                     .dtype = DType::kInt32,
                     .global_shape = state.shapes[t],
                     .offsets = boxes[t].offsets,
                     .shape = boxes[t].sizes,
                     .into = std::as_writable_bytes(std::span(places[t]))});
  }
  const VerifyReport report = read_parts(checkpoint, reads, how);
  if (!report.ok()) return report.summary();
  for (std::size_t t = 0; t < boxes.size(); ++t) {
    if (places[t] != box_of_numbers(state.shapes[t], boxes[t], RandomState::salt(t))) {
      return RandomState::name(t) + ": " + dcp::describe(boxes[t].sizes) + " at " +
             dcp::describe(boxes[t].offsets);
    }
  }
  return {};
}

TEST(ShardedTest, WhatAnyRanksWroteAnyRanksReadAndAnyOneReadsWhole) {
  std::mt19937 random(20261123);
  const auto pick = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  for (int round = 0; round < 150; ++round) {
    RandomState state(random);
    const auto store = memory_store();
    const auto ranks = static_cast<std::uint32_t>(pick(1, 12));
    write_ranks(*store, "ck", state.ranks(ranks), {.files = static_cast<std::size_t>(pick(1, 3))});
    const Checkpoint checkpoint = open_checkpoint("ck", store);
    const Verify how = pick(0, 1) == 0 ? Verify::kQuick : Verify::kWhatIsRead;
    const std::int64_t readers = pick(1, 12);
    const std::vector<Placement> places = state.place(readers);
    for (std::size_t reader = 0; reader < static_cast<std::size_t>(readers); ++reader) {
      std::vector<dcp::Box> boxes;
      for (const Placement& place : places) {
        boxes.push_back(place[reader]);
      }
      ASSERT_EQ(wrong_part(checkpoint, state, boxes, how), "") << "round " << round;
    }
    ASSERT_TRUE(checkpoint.verify().ok()) << checkpoint.verify().summary();
    const Value whole = load(checkpoint);
    ASSERT_EQ(whole.at("rng").as_items().size(), ranks);
    save(whole, "full.pt", {.store = store});
    std::vector<dcp::Box> boxes;
    for (const Shape& shape : state.shapes) {
      boxes.push_back(rows_of(shape.empty() ? Shape{1} : shape, 0, 1));
      if (shape.empty()) boxes.back() = {};
    }
    ASSERT_EQ(wrong_part(open_checkpoint("full.pt", store), state, boxes, how), "")
        << "round " << round;
  }
}

TEST(ShardedTest, SeveralPartsOfATensorOnOneRankAreAllWritten) {
  const auto part = [](std::int64_t begin, std::int64_t rows) {
    return part_of_numbers({8, 3}, {{begin, 0}, {rows, 3}}, 5);
  };
  std::vector<RankState> ranks;
  ranks.emplace_back(sharded::RankPlace{0, 2}, Dict{{"w", part(0, 2)}});
  ranks[0].add_part("w", part(6, 2));
  ranks.emplace_back(sharded::RankPlace{1, 2}, Dict{{"w", part(2, 4)}});
  EXPECT_THROW(ranks[1].add_part("x", part(6, 2)), UsageError);
  EXPECT_THROW(ranks[1].add_part("w", part_of_numbers({9}, {{0}, {9}}, 0)), UsageError);
  const auto store = memory_store();
  write_ranks(*store, "ck", ranks);
  const SharedBytes bytes = load("ck", {.store = store}).at("w").as_tensor().contiguous_bytes();
  const auto expected = box_of_numbers({8, 3}, all_of({8, 3}), 5);
  EXPECT_EQ(as_text(bytes.view), as_text(std::as_bytes(std::span(expected))));
}

// Stages of a pipeline have different items. Planning walks in step through the items that most
// ranks share, but not through the other items.
TEST(ShardedTest, RanksMayHaveDifferentItems) {
  const auto whole = [](std::int32_t salt) {
    return part_of_numbers({3, 5}, all_of({3, 5}), salt);
  };
  const auto row = [](std::int64_t rank) {
    return part_of_numbers({4, 2}, rows_of({4, 2}, rank, 4), 40);
  };
  const std::vector<Value> trees = {
      Dict{{"first", whole(1)}, {"rows", row(0)}, {"step", 7}}, Dict{{"rows", row(1)}, {"step", 7}},
      Dict{{"step", 8}, {"rows", row(2)}},
      Dict{{"rows", row(3)}, {"last", Dict{{"a", whole(2)}, {"b", 9}}}, {"first", whole(1)}}};
  std::vector<RankState> ranks;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ranks.emplace_back(sharded::RankPlace{rank, 4}, trees[rank]);
    if (rank % 2 == 0) ranks.back().add_own("rng", Dict{{"torch", whole(100)}});
  }
  const auto store = memory_store();
  write_ranks(*store, "ck", ranks);
  const Value read = load("ck", {.store = store});
  const auto is_numbers = [&](const Value& found, const Shape& shape, std::int32_t salt) {
    const SharedBytes bytes = found.as_tensor().contiguous_bytes();
    const auto expected = box_of_numbers(shape, all_of(shape), salt);
    return as_text(bytes.view) == as_text(std::as_bytes(std::span(expected)));
  };
  EXPECT_TRUE(is_numbers(read.at("first"), {3, 5}, 1));
  EXPECT_TRUE(is_numbers(read.at("rows"), {4, 2}, 40));
  EXPECT_TRUE(is_numbers(read.at("last").at("a"), {3, 5}, 2));
  EXPECT_EQ(read.at("step"), Value(7));  // The lowest rank's value.
  EXPECT_EQ(read.at("last").at("b"), Value(9));
  EXPECT_TRUE(is_numbers(read.at("rng").as_items()[2].at("torch"), {3, 5}, 100));
  EXPECT_TRUE(read.at("rng").as_items()[1].is_none());
  EXPECT_TRUE(verify("ck", Verify::kFull, store).ok());
}

// --- Written by PyTorch --------------------------------------------------------------------------

// All bytes of a tensor, read as the parts of `ranks` ranks: by rows, or by columns.
std::string bytes_by_parts(const Checkpoint& checkpoint, const std::string& name,
                           const TensorView& tensor, std::int64_t ranks) {
  std::string whole(byte_size(tensor), '\0');
  const std::size_t item = item_size(tensor.dtype);
  const Shape strides = contiguous_strides(tensor.shape);
  const std::size_t d = tensor.shape.size() > 1 && ranks % 2 == 0 ? 1 : 0;
  for (std::int64_t rank = 0; rank < (tensor.shape.empty() ? 1 : ranks); ++rank) {
    dcp::Box box = all_of(tensor.shape);
    if (!tensor.shape.empty()) box = rows_of(tensor.shape, rank, ranks, d);
    std::int64_t first = 0;
    std::int64_t last = 0;
    bool is_empty = false;
    for (std::size_t k = 0; k < strides.size(); ++k) {
      first += box.offsets[k] * strides[k];
      last += (box.sizes[k] - 1) * strides[k];
      is_empty = is_empty || box.sizes[k] == 0;
    }
    if (is_empty) continue;
    const auto into = std::as_writable_bytes(std::span(whole))
                          .subspan(static_cast<std::size_t>(first) * item,
                                   static_cast<std::size_t>(last + 1) * item);
    const VerifyReport report = read_parts(checkpoint, {{.name = name,
                                                         .dtype = tensor.dtype,
                                                         .global_shape = tensor.shape,
                                                         .offsets = box.offsets,
                                                         .shape = box.sizes,
                                                         .into = into,
                                                         .strides = strides}});
    EXPECT_TRUE(report.ok()) << report.summary();
  }
  return whole;
}

TEST(ShardedTest, WhatTwoRanksOfPyTorchWroteAnyNumberReads) {
  for (const std::string version : {"2.6", "2.14"}) {
    const Checkpoint checkpoint = open_checkpoint(kData + "/sharded-" + version + "/ep1-ba3");
    const Checkpoint full = open_checkpoint(kData + "/sharded-" + version + "/full.pt");
    const Value model = load(full).at("model");
    for (const dcp::FlatItem& item : dcp::flatten(model)) {
      const TensorView& tensor = item.value->as_tensor();
      const SharedBytes expected = tensor.contiguous_bytes();
      for (const std::int64_t ranks : {1, 2, 3, 4, 16}) {
        EXPECT_EQ(bytes_by_parts(checkpoint, "state.model." + item.fqn, tensor, ranks),
                  as_text(expected.view))
            << item.fqn;
        EXPECT_EQ(bytes_by_parts(full, "model." + item.fqn, tensor, ranks), as_text(expected.view))
            << item.fqn;
      }
    }
  }
}

// --- Bytes that are read -------------------------------------------------------------------------

// No two tensors share a number.
std::int32_t salt_of(int tensor) { return tensor << 17; }

// 64 tensors of (64, 1024) int32, 256 KiB each, in rows on `ranks` ranks.
std::vector<RankState> large_ranks(std::uint32_t ranks) {
  std::vector<RankState> states;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Dict tree;
    for (int t = 0; t < 64; ++t) {
      tree["t" + std::to_string(t)] =
          part_of_numbers({64, 1024}, rows_of({64, 1024}, rank, ranks), salt_of(t));
    }
    states.emplace_back(sharded::RankPlace{rank, ranks}, tree);
  }
  return states;
}

struct RowsReader {
  RowsReader(std::int64_t rank, std::int64_t ranks) : box(rows_of({64, 1024}, rank, ranks)) {
    for (int t = 0; t < 64; ++t) {
      auto& place = places.emplace_back(static_cast<std::size_t>(box.sizes[0]) * 1024);
      reads.push_back({.name = "t" + std::to_string(t),
                       .dtype = DType::kInt32,
                       .global_shape = {64, 1024},
                       .offsets = box.offsets,
                       .shape = box.sizes,
                       .into = std::as_writable_bytes(std::span(place))});
    }
  }
  void expect_all() const {
    for (int t = 0; t < 64; ++t) {
      EXPECT_EQ(places[static_cast<std::size_t>(t)], box_of_numbers({64, 1024}, box, salt_of(t)))
          << t;
    }
  }

  dcp::Box box;
  std::vector<std::vector<std::int32_t>> places;
  std::vector<PartRead> reads;
};

TEST(ShardedTest, ARankReadsWhatItNeedsOfTheFilesThatHaveIt) {
  const auto memory = memory_store();
  write_ranks(*memory, "ck", large_ranks(8));
  struct Case {
    std::int64_t ranks;
    Verify how;
    std::uint64_t files;  // Files with some of rank 1's bytes.
    double most;          // Bytes read / bytes wanted.
  };
  // The share of bytes around each tensor's rows, which are read twice.
  constexpr double kHeads = 0.6;
  constexpr double kAround = 256 << 10;  // `.metadata`
  for (const Case& c : {Case{8, Verify::kWhatIsRead, 1, 1}, Case{4, Verify::kWhatIsRead, 2, 1},
                        Case{16, Verify::kQuick, 1, 1}, Case{16, Verify::kWhatIsRead, 1, 2},
                        Case{3, Verify::kQuick, 4, 1}}) {
    WatchedStore store(memory);
    RowsReader reader(1, c.ranks);
    const Checkpoint checkpoint =
        open_checkpoint("ck", std::shared_ptr<ObjectStore>(&store, [](ObjectStore*) {}));
    const VerifyReport report = read_parts(checkpoint, reader.reads, c.how);
    ASSERT_TRUE(report.ok()) << report.summary();
    reader.expect_all();
    const double wanted = 64 * 1024 * 4 * static_cast<double>(reader.box.sizes[0]);
    EXPECT_LT(static_cast<double>(store.bytes_read()), wanted * c.most + wanted * kHeads + kAround)
        << c.ranks;
    // The number of reads does not depend on the number of tensors. There are two reads of
    // `.metadata` and one of the manifest. Each file has two reads of the bytes around the rows,
    // and reads of the rows, a MiB at a time. Every data file is opened once, to make sure that the
    // checkpoint is whole.
    EXPECT_LE(store.calls(StoreCall::kOpen), 8U + 2);
    EXPECT_LE(store.calls(StoreCall::kStat), 4U);
    EXPECT_LE(store.calls(StoreCall::kRead), 3 + 3 * c.files + store.bytes_read() / (1 << 20))
        << c.ranks;
  }
}

TEST(ShardedTest, RowsOfATorchFileAreReadAlone) {
  const auto memory = memory_store();
  Dict tree;
  for (int t = 0; t < 64; ++t) {
    TensorView tensor = part_of_numbers({64, 1024}, all_of({64, 1024}), salt_of(t));
    tensor.part = nullptr;
    tree["t" + std::to_string(t)] = tensor;
  }
  save(tree, "full.pt", {.store = memory});
  WatchedStore store(memory);
  RowsReader reader(1, 8);
  const Checkpoint checkpoint =
      open_checkpoint("full.pt", std::shared_ptr<ObjectStore>(&store, [](ObjectStore*) {}));
  EXPECT_TRUE(read_parts(checkpoint, reader.reads, Verify::kQuick).ok());
  reader.expect_all();
  EXPECT_LT(store.bytes_read(), 64 * 8 * 4096 + (1 << 20));
}

TEST(ShardedTest, DamageInWhatIsReadIsFoundAndElsewhereIsNot) {
  const TempFolder temp;
  const std::string path = temp / "ck";
  write_ranks(*local_store(), path, large_ranks(4));
  std::string bytes = testing::read_file(path + "/__2_0.distcp");
  const auto row = box_of_numbers({64, 1024}, {{32, 0}, {1, 1024}}, salt_of(5));
  const std::size_t at = bytes.find(as_text(std::as_bytes(std::span(row))));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] ^= 1;
  testing::write_file(path + "/__2_0.distcp", bytes);
  RowsReader first(0, 2);
  EXPECT_TRUE(read_parts(open_checkpoint(path), first.reads).ok());
  first.expect_all();
  RowsReader second(1, 2);
  const VerifyReport report = read_parts(open_checkpoint(path), second.reads);
  ASSERT_EQ(report.damage.size(), 1U) << report.summary();
  EXPECT_EQ(report.damage[0].record, "__2_0.distcp");
  EXPECT_EQ(report.damage[0].tensors, std::vector<std::string>{"t5"});
  EXPECT_FALSE(verify(path).ok());
}

TEST(ShardedTest, WhatDoesNotFitIsNamedBeforeAnythingIsRead) {
  const auto store = memory_store();
  write_ranks(*store, "ck", large_ranks(2));
  const Checkpoint checkpoint = open_checkpoint("ck", store);
  RowsReader reader(0, 2);
  reader.reads[0].name = "gone";
  reader.reads[1].dtype = DType::kFloat32;
  reader.reads[2].global_shape = {64, 1};
  EXPECT_THROW(read_parts(checkpoint, reader.reads), MismatchError);
  EXPECT_EQ(message_of([&] { read_parts(checkpoint, reader.reads); }),
            "the checkpoint does not fit:\n  \"gone\" is not in the checkpoint\n"
            "  \"t1\" is int32 (64, 1024) in the checkpoint, but float32 (64, 1024) here\n"
            "  \"t2\" is int32 (64, 1024) in the checkpoint, but int32 (64, 1) here");
  RowsReader outside(1, 2);
  outside.reads[0].offsets = {33, 0};
  EXPECT_THROW(read_parts(checkpoint, outside.reads), UsageError);
  RowsReader small(1, 2);
  small.reads[0].into = small.reads[0].into.first(4);
  EXPECT_THROW(read_parts(checkpoint, small.reads), UsageError);
}

TEST(ShardedTest, PartsOfAnyTensorAreReadByRangesOfTheirBytes) {
  TensorView transposed = part_of_numbers({6, 5}, all_of({6, 5}), 0);
  transposed.part = nullptr;
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  const std::vector<TensorView> parts = tensors_of_parts({{transposed, {1, 2}, {3, 4}}});
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(*parts[0].part, (TensorPart{{5, 6}, {1, 2}}));
  std::vector<std::int32_t> numbers(12);
  parts[0].storage->read_into(0, std::as_writable_bytes(std::span(numbers)));
  EXPECT_EQ(numbers, (std::vector<std::int32_t>{11, 16, 21, 26, 12, 17, 22, 27, 13, 18, 23, 28}));
  parts[0].storage->read_into(5, std::as_writable_bytes(std::span(numbers)).first(2));
  EXPECT_THROW(tensors_of_parts({{parts[0], {0, 0}, {1, 1}}}), UsageError);
  EXPECT_THROW(tensors_of_parts({{transposed, {3, 0}, {3, 6}}}), UsageError);
}

// A source that notes its longest read.
class LongestRead final : public ByteSource {
 public:
  explicit LongestRead(std::shared_ptr<const ByteSource> under) : under_(std::move(under)) {}
  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  void read(std::span<const Range> ranges) const override {
    for (const Range& range : ranges) {
      longest = std::max<std::uint64_t>(longest, range.into.size());
    }
    under_->read(ranges);
  }
  mutable std::uint64_t longest = 0;

 private:
  std::shared_ptr<const ByteSource> under_;
};

TEST(ShardedTest, NarrowColumnsOfALargeTensorTakeLittleMemory) {
  constexpr std::int64_t kTallRows = 90000;
  constexpr std::int64_t kWideColumns = 500;
  const auto bytes = std::make_shared<std::vector<std::byte>>(kTallRows * kWideColumns);
  for (std::size_t i = 0; i < bytes->size(); ++i) {
    (*bytes)[i] = static_cast<std::byte>(i % 251);
  }
  const auto source =
      std::make_shared<const LongestRead>(source_of({ByteView(*bytes), bytes}, "45 MB far away"));
  TensorView tensor =
      make_tensor(DType::kUInt8, {kTallRows, kWideColumns}, {ByteView(*bytes), bytes});
  tensor.storage = storage_of(source, 0, bytes->size());
  const std::vector<TensorView> parts = tensors_of_parts({{tensor, {0, 498}, {kTallRows, 2}}});
  std::vector<std::byte> read(2 * kTallRows);
  parts[0].storage->read_into(0, read);
  for (std::size_t row = 0; row < kTallRows; row += 97) {
    ASSERT_EQ(read[2 * row + 1], static_cast<std::byte>((row * kWideColumns + 499) % 251)) << row;
  }
  EXPECT_LE(source->longest, std::uint64_t{16} << 20);
}

// --- Like any other checkpoint -------------------------------------------------------------------

TEST(ShardedTest, IsConvertedToOneFile) {
  const TempFolder temp;
  std::mt19937 random(7);
  RandomState state(random);
  write_ranks(*local_store(), temp / "ck", state.ranks(3));
  convert(temp / "ck", temp / "one.pt");
  EXPECT_EQ(load(temp / "one.pt"), load(temp / "ck"));
}

TEST(ShardedTest, AWriteThatFailsIsAnError) {
  const auto ranks = large_ranks(2);
  const sharded::GlobalPlan plan = testing::plan_ranks(ranks);
  const sharded::RankFiles files(ranks[0], plan.plan_of(0), {.files = 2});
  WatchedStore store(memory_store(), {.before = [](StoreCall call, const std::string& name) {
                       if (call == StoreCall::kWrite && name.ends_with("__0_1.distcp")) {
                         throw StorageError("no room", 28);
                       }
                     }});
  EXPECT_THROW(files.write([&](const std::string& name, std::uint64_t bytes) {
    return store.begin("ck/" + name, {.condition = {}, .expected_bytes = bytes});
  }),
               StorageError);
}

}  // namespace
}  // namespace cairn
