#include "checkpoint/plan/snapshot.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "testing/counting_source.h"

namespace cairn {
namespace {

// A tensor over memory that the test changes, as training does.
TensorView live(std::vector<float>& memory) {
  return make_tensor(DType::kFloat32, {static_cast<std::int64_t>(memory.size())},
                     {std::as_bytes(std::span(memory)), nullptr});
}

const float* data(const Value& value) {
  return reinterpret_cast<const float*>(value.as_tensor().storage->bytes().view.data());
}

TEST(SnapshotTest, KeepsTheOldBytesWhenTheOriginalsChange) {
  std::vector<float> a = {1, 2, 3};
  std::vector<float> b = {4};
  Snapshotter snapshotter;
  const Value taken = snapshotter.take(Dict{{"a", live(a)}, {"list", List{live(b), 7}}});
  a[1] = -2;
  b[0] = -4;
  std::vector<float> old_a = {1, 2, 3};
  std::vector<float> old_b = {4};
  EXPECT_EQ(taken, Value(Dict{{"a", live(old_a)}, {"list", List{live(old_b), 7}}}));
}

TEST(SnapshotTest, KeepsTheAttributesOfDictsAndWhatTheyShare) {
  std::vector<float> a = {1, 2};
  const Value shared = live(a);
  Dict dict = Dict{{"a", shared}};
  dict.set_attributes(Dict{{"kept", shared}});
  Snapshotter snapshotter;
  const Value taken = snapshotter.take(dict);
  a[0] = -1;
  const Value& kept = taken.as_dict().attributes().at("kept");
  EXPECT_EQ(*data(kept), 1);
  EXPECT_EQ(kept.as_tensor().storage, taken.at("a").as_tensor().storage);
}

// If storages are on a device, or in a file that is not mapped, one call may read all storages
// directly to their positions in the copy.
TEST(SnapshotTest, StoragesOfOneSourceAreReadWithOneCall) {
  const std::vector<float> memory = {1, 2, 3, 4, 5};
  const auto source = std::make_shared<const testing::CountingSource>(
      source_of({std::as_bytes(std::span(memory)), nullptr}, "device"));
  List tensors;
  for (std::uint64_t i = 0; i < memory.size(); ++i) {
    TensorView tensor;
    tensor.storage = storage_of(source, i * sizeof(float), sizeof(float), "cuda:0");
    tensors.emplace_back(tensor);
  }
  std::vector<float> near = {6};
  tensors.emplace_back(live(near));
  Snapshotter snapshotter;
  const Value taken = snapshotter.take(tensors);
  EXPECT_EQ(source->reads, 1);
  EXPECT_EQ(source->bytes, memory.size() * sizeof(float));
  for (std::size_t i = 0; i < memory.size(); ++i) {
    EXPECT_EQ(*data(taken.as_items()[i]), memory[i]);
    EXPECT_EQ(taken.as_items()[i].as_tensor().storage->location(), "cuda:0");
  }
  EXPECT_EQ(*data(taken.as_items().back()), 6);
}

// Several threads copy pieces of 32 MiB. Storages may begin and end anywhere in a piece.
TEST(SnapshotTest, EveryByteOfLargeStatesIsCopied) {
  constexpr std::uint64_t kPiece = std::uint64_t{32} << 20;
  const std::vector<std::uint64_t> sizes = {0,          3, kPiece - 200, 128, 0, 0, 2 * kPiece + 64,
                                            kPiece - 7, 0, 5 * 64,       1,   0};
  std::vector<std::byte> memory(7 * kPiece);
  std::uint64_t random = 1;
  for (std::size_t i = 0; i < memory.size(); i += 4096) {  // Each page differs.
    random = random * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(memory.data() + i, &random, sizeof(random));
  }
  const auto source = std::make_shared<const testing::CountingSource>(
      source_of({ByteView(memory).first(kPiece), nullptr}, "device"));
  std::vector<std::shared_ptr<const Storage>> storages;
  std::vector<const Storage*> all;
  std::vector<std::uint64_t> offsets;
  std::vector<ByteView> expected;
  std::uint64_t end = 4096;
  std::size_t from = 0;
  const auto add = [&](std::shared_ptr<const Storage> storage, ByteView bytes) {
    offsets.push_back(end);
    expected.push_back(bytes);
    all.push_back(storage.get());
    storages.push_back(std::move(storage));
    end += (bytes.size() + 63) / 64 * 64;
  };
  for (const std::uint64_t size : sizes) {
    const ByteView bytes = ByteView(memory).subspan(from, size);
    add(storage_of(SharedBytes{bytes, nullptr}), bytes);
    from += size;
  }
  add(storage_of(source, 5, kPiece - 5, "cuda:0"), ByteView(memory).subspan(5, kPiece - 5));
  Snapshotter snapshotter;
  const std::vector<SharedBytes> views = {{}, {expected[1], nullptr}};
  const auto copy = snapshotter.take(all, offsets, end, views);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ByteView bytes = expected[i];
    if (bytes.empty()) continue;
    EXPECT_EQ(std::memcmp(copy->data() + offsets[i], bytes.data(), bytes.size()), 0) << i;
  }
  EXPECT_EQ(source->reads, 1);
}

TEST(SnapshotTest, WhatWasSharedStaysShared) {
  std::vector<float> memory = {1, 2, 3, 4};
  const Value whole = live(memory);
  TensorView part = whole.as_tensor();
  part.shape = {2};
  part.storage_offset = 2;
  const Value list = List{whole};
  Snapshotter snapshotter;
  const Value taken =
      snapshotter.take(Dict{{"whole", whole}, {"part", part}, {"x", list}, {"y", list}});
  EXPECT_EQ(taken.at("whole").as_tensor().storage, taken.at("part").as_tensor().storage);
  EXPECT_EQ(taken.at("x").identity(), taken.at("y").identity());
  EXPECT_EQ(taken.at("x").as_items()[0].identity(), taken.at("whole").identity());
  EXPECT_NE(data(taken.at("whole")), memory.data());
}

TEST(SnapshotTest, KeysOfDictsAndItemsOfSetsAreCopiedWithTheRest) {
  std::vector<float> memory = {1, 2};
  const Value weight = live(memory);
  Snapshotter snapshotter;
  const Value taken =
      snapshotter.take(Dict{{"w", weight}, {"state", Dict{{weight, 1}}}, {"set", Set{{weight}}}});
  memory[0] = -1;
  const Value& copy = taken.at("w");
  EXPECT_EQ(*data(copy), 1);
  ASSERT_NE(taken.at("state").as_dict().find(copy), nullptr);
  EXPECT_EQ(taken.at("set"), Value(Set{{copy}}));
}

TEST(SnapshotTest, CopiesThePartsOfSparseAndQuantizedTensors) {
  std::vector<float> memory = {1, 2};
  std::vector<float> scales = {0.5};
  std::vector<std::int64_t> indices = {0, 2};
  SparseTensor sparse;
  sparse.shape = {3};
  sparse.indices = make_tensor(DType::kInt64, {1, 2}, {std::as_bytes(std::span(indices)), nullptr});
  sparse.values = live(memory);
  TensorView quantized = live(memory);
  quantized.dtype = DType::kQInt32;
  quantized.quantizer = std::make_shared<const Quantizer>(
      Quantizer{.axis = 0, .scales = live(scales), .zero_points = live(scales)});
  Snapshotter snapshotter;
  const Value value = List{sparse, quantized};
  const Value taken = snapshotter.take(value);
  EXPECT_EQ(taken, value);
  memory[0] = -1;
  scales[0] = -1;
  indices[0] = 1;
  const SparseTensor& copy = taken.as_items()[0].as_sparse();
  EXPECT_EQ(copy.indices.storage->bytes().view[0], std::byte{0});
  EXPECT_EQ(data(copy.values)[0], 1);
  EXPECT_EQ(data(taken.as_items()[1])[0], 1);
  EXPECT_EQ(data(taken.as_items()[1].as_tensor().quantizer->scales)[0], 0.5);
}

TEST(SnapshotTest, KeepsKindsOrderAndLocation) {
  std::vector<float> memory = {1};
  TensorView tensor = live(memory);
  tensor.requires_grad = true;
  tensor.storage = storage_of(tensor.storage->bytes(), "cuda:1");
  const Value value = Dict::ordered({{"z", Tuple{{tensor, None{}}}}, {1, "int"}, {"a", List{}}});
  Snapshotter snapshotter;
  const Value taken = snapshotter.take(value);
  EXPECT_EQ(taken, value);
  EXPECT_TRUE(taken.as_dict().is_ordered());
  EXPECT_TRUE(taken.at("z").is_tuple());
  EXPECT_TRUE(taken.at("z").as_items()[0].as_tensor().requires_grad);
  EXPECT_EQ(taken.at("z").as_items()[0].as_tensor().storage->location(), "cuda:1");
  EXPECT_EQ(taken.as_dict().begin()->first, Value("z"));
}

TEST(SnapshotTest, MemoryIsUsedAgainWhenNothingPointsIntoItAnyMore) {
  std::vector<float> memory(1000, 1.0F);
  Snapshotter snapshotter;
  const float* first = nullptr;
  {
    const Value taken = snapshotter.take(live(memory));
    first = data(taken);
  }
  const std::uint64_t held = snapshotter.arena_bytes();
  const Value again = snapshotter.take(live(memory));
  EXPECT_EQ(data(again), first);
  EXPECT_EQ(snapshotter.arena_bytes(), held);
}

TEST(SnapshotTest, ASnapshotInUseIsNotOverwritten) {
  std::vector<float> memory(1000, 1.0F);
  Snapshotter snapshotter;
  const Value first = snapshotter.take(live(memory));
  memory[0] = 2;
  const Value second = snapshotter.take(live(memory));
  EXPECT_EQ(data(first)[0], 1.0F);
  EXPECT_EQ(data(second)[0], 2.0F);
}

TEST(SnapshotTest, AnArenaThatIsTooSmallIsReplacedNotKept) {
  std::vector<float> small(1000);
  std::vector<float> large(2 << 20);
  Snapshotter snapshotter;
  (void)snapshotter.take(live(small));
  const std::uint64_t before = snapshotter.arena_bytes();
  (void)snapshotter.take(live(large));
  EXPECT_EQ(before, 2U << 20);
  EXPECT_EQ(snapshotter.arena_bytes(), 8U << 20);
}

TEST(SnapshotTest, SnapshotsOutliveTheSnapshotter) {
  std::vector<float> memory = {5};
  Value taken;
  {
    Snapshotter snapshotter;
    taken = snapshotter.take(live(memory));
  }
  memory[0] = 6;
  EXPECT_EQ(data(taken)[0], 5.0F);
}

TEST(SnapshotTest, TensorsWithoutBytesAreFine) {
  std::vector<float> none;
  Snapshotter snapshotter;
  const Value taken = snapshotter.take(List{live(none), Value{}});
  EXPECT_EQ(taken.as_items()[0].as_tensor().numel(), 0);
}

}  // namespace
}  // namespace cairn
