#include "cairn/node_arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/tensor.h"
#include "cairn/value.h"

namespace cairn {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

std::string long_name(int number) {
  return "model.layers." + std::to_string(number) + ".attention.weight";
}

// A tree as a reader makes it.
Value tree_of(int tensors) {
  Dict dict;
  for (int i = 0; i < tensors; ++i) {
    dict.set(long_name(i), make_tensor(DType::kUInt8, {0}, SharedBytes{}));
  }
  return dict;
}

bool is_beside(const Value& a, const Value& b) {
  const auto place = [](const Value& v) { return reinterpret_cast<std::uintptr_t>(v.identity()); };
  const std::uintptr_t apart = place(a) > place(b) ? place(a) - place(b) : place(b) - place(a);
  return apart < kBlockBytes;
}

TEST(NodeArenaTest, WithoutOneThereAreNoBlocks) {
  const std::size_t before = NodeArena::blocks();
  const Value tree = tree_of(1000);
  { const NodeArena nothing_is_made; }
  EXPECT_FALSE(NodeArena::is_active());
  EXPECT_EQ(NodeArena::blocks(), before);
}

TEST(NodeArenaTest, ATreeLiesInBlocksThatEndWithIt) {
  const std::size_t before = NodeArena::blocks();
  Value tree;
  {
    const NodeArena arena;
    EXPECT_TRUE(NodeArena::is_active());
    tree = tree_of(10'000);
  }
  EXPECT_FALSE(NodeArena::is_active());
  const std::size_t blocks = NodeArena::blocks() - before;
  EXPECT_GT(blocks, 10U);
  EXPECT_LT(blocks * kBlockBytes, std::size_t{10'000} * 400);
  EXPECT_TRUE(is_beside(tree.at(long_name(4)), tree.at(long_name(5))));
  EXPECT_EQ(tree, tree_of(10'000));
  tree = {};
  EXPECT_EQ(NodeArena::blocks(), before);
}

TEST(NodeArenaTest, WhoKeepsOneNodeKeepsItsBlock) {
  const std::size_t before = NodeArena::blocks();
  Value kept;
  {
    const NodeArena arena;
    const Value tree = tree_of(10'000);
    kept = tree.at(long_name(5000));
  }
  // The tensor, and its storage, which may lie in the block before.
  EXPECT_LE(NodeArena::blocks() - before, 2U);
  EXPECT_EQ(kept, make_tensor(DType::kUInt8, {0}, SharedBytes{}));
  kept = {};
  EXPECT_EQ(NodeArena::blocks(), before);
}

TEST(NodeArenaTest, AnInnerOneIsPartOfTheOuter) {
  const std::size_t before = NodeArena::blocks();
  {
    const NodeArena outer;
    const Value a = List{1};
    { const NodeArena inner; }
    EXPECT_TRUE(NodeArena::is_active());
    const Value b = List{2};
    EXPECT_EQ(NodeArena::blocks(), before + 1);
    EXPECT_TRUE(is_beside(a, b));
  }
  EXPECT_EQ(NodeArena::blocks(), before);
}

TEST(NodeArenaTest, WhatIsChangedOutsideLivesOutside) {
  const std::size_t before = NodeArena::blocks();
  Value list;
  {
    const NodeArena arena;
    list = List{1};
  }
  const Value shared = list;
  list.mutable_list().emplace_back(2);  // a copy, made here
  EXPECT_EQ(NodeArena::blocks(), before + 1);
  EXPECT_EQ(shared, Value(List{1}));
  EXPECT_EQ(list, Value(List({1, 2})));
}

// With what a thread makes let go of by others, while it goes on.
TEST(NodeArenaTest, AnyThreadMayLetGo) {
  const std::size_t before = NodeArena::blocks();
  {
    std::vector<std::thread> threads;
    const NodeArena arena;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([tree = tree_of(2000)]() mutable {
        const NodeArena own;
        const Value more = tree_of(500);
        EXPECT_EQ(more.as_dict().size(), 500U);
        tree = {};
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  EXPECT_EQ(NodeArena::blocks(), before);
}

// What std::allocate_shared() made, with who only watches it: the memory is that of both.
TEST(NodeArenaTest, SharedPointersGiveBackWhereTheyTook) {
  const std::size_t before = NodeArena::blocks();
  std::weak_ptr<std::string> watched;
  std::shared_ptr<std::string> text;
  {
    const NodeArena arena;
    text = std::allocate_shared<std::string>(NodeAllocator<std::string>(), 40, 'x');
    watched = text;
  }
  EXPECT_EQ(NodeArena::blocks(), before + 1);
  text.reset();
  EXPECT_TRUE(watched.expired());
  watched.reset();
  EXPECT_EQ(NodeArena::blocks(), before);
  text = std::allocate_shared<std::string>(NodeAllocator<std::string>(), 40, 'y');
  EXPECT_EQ(NodeArena::blocks(), before);
}

}  // namespace
}  // namespace cairn
