// An EncodeMemory changes no output. Whatever tree is encoded next, its pickle, its reserved room
// and its storages are the same as without the memory.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "format/pickle/write/encode.h"

namespace cairn::pickle {
namespace {

constexpr int kMany = 100;

std::shared_ptr<const Storage> storage(const std::string& bytes = "12345678") {
  const auto owner = std::make_shared<const std::string>(bytes);
  return storage_of(SharedBytes{as_bytes(*owner), owner});
}

Value tensor(std::shared_ptr<const Storage> of = storage()) {
  TensorView view;
  view.shape = {2};
  view.strides = {1};
  view.storage = std::move(of);
  return view;
}

// Makes a new text instead of a literal, so that texts are freed with their trees.
std::string name(int i) {
  std::string text = "a_layers_weight_";
  text += std::to_string(i);
  return text;
}

Value model(int first = 0) {
  Dict dict = Dict::ordered();
  for (int i = first; i < first + kMany; ++i) {
    dict.set(name(i), tensor());
  }
  return dict;
}

Value state_of_one(int steps) {
  return Dict{{"step", tensor()}, {"exp_avg", tensor()}, {"seen", steps}, {"best", None{}}};
}

Value states(int first = 0) {
  Dict dict;
  for (int i = first; i < first + kMany; ++i) {
    dict.set(name(i), state_of_one(i));
  }
  return dict;
}

class EncodeMemoryTest : public ::testing::Test {
 protected:
  static Value tree(const Value& model, const Value& states, Value between = 7, Value behind = {}) {
    return Dict{{"state", Dict{{"model", model},
                               {"between", std::move(between)},
                               {"optimizers", Dict{{"Adam", Dict{{"state", states}}}}},
                               {"behind", std::move(behind)}}}};
  }
  void expect_same(const Value& value) {
    const Encoded anew = encode(value);
    const Encoded known = encode(value, memory_);
    EXPECT_EQ(known.data_pkl, anew.data_pkl);
    EXPECT_EQ(known.room, anew.room);
    EXPECT_EQ(known.storages, anew.storages);
  }
  // Encodes `value` twice, so that the second call can use the memory of the first. Then does so
  // after another known tree.
  void expect_same_after(const Value& before, const Value& value) {
    memory_.forget();
    expect_same(before);
    expect_same(before);
    expect_same(value);
    expect_same(value);
    expect_same(before);
  }

  const Value model_ = model();
  const Value states_ = states();
  EncodeMemory memory_;
};

TEST_F(EncodeMemoryTest, WhatIsBehindAndBetweenChanges) {
  const Value before = tree(model_, states_);
  expect_same_after(before, tree(model_, states_));
  expect_same_after(before, tree(model_, states_, 7, "something else"));
  expect_same_after(before, tree(model_, states_, 8));
  expect_same_after(before, tree(model_, states_, 1 << 20));
  expect_same_after(before, tree(model_, states_, "a text of a tree that is gone"));
  expect_same_after(before, tree(model_, states_, name(3)));
  expect_same_after(before, tree(model_, states_, "exp_avg", "step"));
  expect_same_after(before, tree(model_, states_, tensor()));
  expect_same_after(before, tree(model_, states_, 7, tensor()));
  expect_same_after(tree(model_, states_, tensor()), tree(model_, states_, tensor()));
}

TEST_F(EncodeMemoryTest, OtherParts) {
  const Value before = tree(model_, states_);
  expect_same_after(before, tree(model(), states_));
  expect_same_after(before, tree(model_, states()));
  expect_same_after(before, tree(model(1), states(1)));
  expect_same_after(before, tree(states_, model_));
  expect_same_after(before, tree(model_, model_));
  expect_same_after(before, tree(states_, states_));
  expect_same_after(before, tree(model_, None{}));
  expect_same_after(before, tree(None{}, states_));
  expect_same_after(before, states_);
  expect_same_after(before, Dict{{"deeper", before}});
  expect_same_after(tree(model_, model()), tree(model_, model()));
}

// An object of a part, which at first nothing else holds, occurs again.
TEST_F(EncodeMemoryTest, ObjectsOfAPartElsewhere) {
  const Value before = tree(model_, states_);
  const Value weight = model_.at(name(5));
  const Value state = states_.at(name(5));
  const Value moment = state.at("exp_avg");
  for (const Value& object : {weight, state, moment, model_, states_}) {
    expect_same_after(before, tree(model_, states_, 7, object));
    expect_same_after(before, tree(model_, states_, object));
    expect_same_after(before, tree(model_, states_, 7, List{object, object}));
    expect_same_after(before, Dict{{"first", object}, {"then", before}});
  }
}

TEST_F(EncodeMemoryTest, ObjectsThatAreMetFirstInThePart) {
  const Value shared = state_of_one(1);
  Dict dict = states_.as_dict();
  dict.set(name(3), shared);
  dict.set(name(4), shared);
  const Value with_shared = dict;
  expect_same_after(tree(model_, with_shared), tree(model_, with_shared, 9, shared));
  // In the first tree it is one object, in the second tree there are two equal objects.
  expect_same_after(tree(model_, with_shared, Dict{{"a", 1}}), tree(model_, with_shared, shared));
}

TEST_F(EncodeMemoryTest, StoragesOfOnePartInTheOther) {
  const auto tied = model_.at(name(2)).as_tensor().storage;
  Dict dict = states_.as_dict();
  dict.set(name(3), Dict{{"exp_avg", tensor(tied)}});
  const Value aliasing = dict;
  expect_same_after(tree(model_, aliasing), tree(model_, aliasing, 8, tensor(tied)));
  expect_same_after(tree(model_, aliasing), tree(model_, aliasing, tensor(tied)));
  expect_same_after(tree(model_, aliasing), tree(model(), aliasing));
  expect_same_after(tree(model_, aliasing, Dict{{"a", tensor(tied)}}),
                    tree(model_, aliasing, Dict{{"a", tensor(tied)}}));
}

// Before the parts come texts that are numbers, like the keys of storages: in order and out of
// order.
TEST_F(EncodeMemoryTest, TextsThatAreKeysOfStorages) {
  for (const char* first : {"0", "1", "150", "00"}) {
    const auto behind_text = [&](const Value& last) {
      return Dict{{"first", first}, {"tree", tree(model_, states_, "3", last)}};
    };
    const Value before = behind_text("150");
    expect_same_after(before, before);
    expect_same_after(before, behind_text(first));
    expect_same_after(before, behind_text("7"));
    expect_same_after(before, behind_text(List{"199", "1000", tensor(), "300"}));
  }
}

TEST_F(EncodeMemoryTest, StatesWithoutTensors) {
  Dict dict = states_.as_dict();
  dict.set(name(3), Dict{{"momentum_buffer", None{}}});
  const Value without = dict;
  const Value inner = without.at(name(3));
  expect_same_after(tree(model_, without, Dict{{"momentum_buffer", None{}}}),
                    tree(model_, without, inner));
}

// Encodes any trees, in any order.
TEST_F(EncodeMemoryTest, AfterAnyTrees) {
  std::mt19937 random(11);  // NOLINT
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::vector<Value> parts = {model_, model(), states_, states(), model(7), None{}};
  const std::vector<Value> others = {7,
                                     8,
                                     "a text",
                                     name(1),
                                     tensor(),
                                     model_.at(name(1)),
                                     states_.at(name(1)),
                                     states_.at(name(2)).at("step"),
                                     tensor(model_.at(name(9)).as_tensor().storage),
                                     Dict{{"a", 1}},
                                     None{}};
  for (int i = 0; i < 300; ++i) {
    expect_same(tree(parts[pick(parts.size())], parts[pick(parts.size())],
                     others[pick(others.size())], others[pick(others.size())]));
  }
}

}  // namespace
}  // namespace cairn::pickle
