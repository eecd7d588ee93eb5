#include "cairn/detail/node_arena.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cairn/tensor.h"
#include "cairn/value.h"

namespace cairn {
namespace {

using detail::NodeAllocator;
using detail::NodeArena;

constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

std::string long_name(int number) {
  return "model.layers." + std::to_string(number) + ".attention.weight";
}

// A tree like those that a reader makes.
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

// Runs on its own thread, which keeps no block when it ends. Returns by how many the blocks grew.
std::ptrdiff_t blocks_after(const std::function<void()>& run) {
  const std::size_t before = NodeArena::blocks();
  std::thread(run).join();
  return static_cast<std::ptrdiff_t>(NodeArena::blocks() - before);
}

TEST(NodeArenaTest, WithoutOneThereAreNoBlocks) {
  const std::size_t before = NodeArena::blocks();
  const Value tree = tree_of(1000);
  { const NodeArena nothing_is_made; }
  EXPECT_FALSE(NodeArena::is_active());
  EXPECT_EQ(NodeArena::blocks(), before);
}

TEST(NodeArenaTest, ATreeLiesInBlocksThatEndWithIt) {
  Value tree;
  const std::ptrdiff_t blocks = blocks_after([&] {
    const NodeArena arena;
    EXPECT_TRUE(NodeArena::is_active());
    tree = tree_of(10'000);
  });
  EXPECT_GT(blocks, 10);
  EXPECT_LT(blocks * kBlockBytes, 10'000 * 400);
  EXPECT_TRUE(is_beside(tree.at(long_name(4)), tree.at(long_name(5))));
  EXPECT_EQ(tree, tree_of(10'000));
  EXPECT_EQ(blocks_after([&] { tree = {}; }), -blocks);
}

TEST(NodeArenaTest, WhoKeepsOneNodeKeepsItsBlock) {
  Value kept;
  const std::ptrdiff_t blocks = blocks_after([&] {
    const NodeArena arena;
    const Value tree = tree_of(10'000);
    kept = tree.at(long_name(5000));
  });
  EXPECT_GE(blocks, 1);
  EXPECT_LE(blocks, 2);  // the storage may be in the previous block
  EXPECT_EQ(kept, make_tensor(DType::kUInt8, {0}, SharedBytes{}));
  EXPECT_EQ(blocks_after([&] { kept = {}; }), -blocks);
}

TEST(NodeArenaTest, AnInnerOneIsPartOfTheOuter) {
  EXPECT_EQ(blocks_after([] {
              const std::size_t before = NodeArena::blocks();
              const NodeArena outer;
              const Value a = List{1};
              { const NodeArena inner; }
              EXPECT_TRUE(NodeArena::is_active());
              const Value b = List{2};
              EXPECT_EQ(NodeArena::blocks(), before + 1);
              EXPECT_TRUE(is_beside(a, b));
            }),
            0);
}

TEST(NodeArenaTest, WhileItPausesNodesAreFromTheHeap) {
  Value inside;
  Value outside;
  EXPECT_EQ(blocks_after([&] {
              const NodeArena arena;
              {
                const NodeArena::Pause pause;
                EXPECT_FALSE(NodeArena::is_active());
                outside = List{1};
              }
              EXPECT_TRUE(NodeArena::is_active());
              inside = List{2};
            }),
            1);
  EXPECT_EQ(blocks_after([&] { inside = {}; }), -1);  // the other one is not in the block
  EXPECT_EQ(outside, Value(List{1}));
}

// Like the destructor of a static object that saves.
struct MakesATreeWhenItsThreadEnds {
  ~MakesATreeWhenItsThreadEnds() {
    const NodeArena arena;
    EXPECT_EQ(tree_of(3).as_dict().size(), 3U);
  }
};

TEST(NodeArenaTest, ATreeMayBeMadeWhenAllElseOfTheThreadIsGone) {
  EXPECT_EQ(blocks_after([] {
              thread_local const MakesATreeWhenItsThreadEnds late;
              EXPECT_NE(&late, nullptr);  // makes it before the arena keeps anything here
              const NodeArena arena;
              const Value tree = tree_of(3);
            }),
            0);
}

TEST(NodeArenaTest, ManySmallTreesShareABlock) {
  std::vector<Value> trees;
  const std::ptrdiff_t blocks = blocks_after([&] {
    for (int i = 0; i < 100; ++i) {
      const NodeArena arena;
      trees.emplace_back(List{i});
    }
  });
  EXPECT_EQ(blocks, 1);
  EXPECT_EQ(trees.at(99), Value(List{99}));
}

TEST(NodeArenaTest, AnEmptyBlockIsBegunAgain) {
  std::set<const void*> places;
  EXPECT_EQ(blocks_after([&] {
              for (int i = 0; i < 10'000; ++i) {
                const NodeArena arena;
                places.insert(Value(List{i}).identity());
              }
            }),
            0);
  EXPECT_EQ(places.size(), 1U);
}

TEST(NodeArenaTest, WhatIsChangedOutsideLivesOutside) {
  Value list;
  EXPECT_EQ(blocks_after([&] {
              const NodeArena arena;
              list = List{1};
            }),
            1);
  const Value shared = list;
  list.mutable_list().emplace_back(2);  // a copy, made here
  EXPECT_EQ(shared, Value(List{1}));
  EXPECT_EQ(list, Value(List({1, 2})));
}

// Other threads free what a thread made, while that thread goes on.
TEST(NodeArenaTest, AnyThreadMayLetGo) {
  EXPECT_EQ(blocks_after([] {
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
            }),
            0);
}

// std::allocate_shared() makes one allocation for the object and its weak pointers.
TEST(NodeArenaTest, SharedPointersGiveBackWhereTheyTook) {
  const auto make = [] {
    return std::allocate_shared<std::string>(NodeAllocator<std::string>(), 40, 'x');
  };
  std::shared_ptr<std::string> text;
  EXPECT_EQ(blocks_after([&] {
              const NodeArena arena;
              text = make();
            }),
            1);
  std::weak_ptr<std::string> watched = text;
  EXPECT_EQ(blocks_after([&] { text.reset(); }), 0);
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(blocks_after([&] { watched.reset(); }), -1);
  EXPECT_EQ(blocks_after([&] { text = make(); }), 0);
  EXPECT_EQ(*text, std::string(40, 'x'));
}

}  // namespace
}  // namespace cairn
