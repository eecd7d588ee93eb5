#include "cairn/train/rng.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "train/state/random/mersenne_state.h"
#include "train/state/random/rng_check.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::int64_t> words(const Value& state) {
  std::vector<std::int64_t> result;
  if (state.as_items()[1].kind() == Kind::kNdArray) {
    const NdArray& array = state.as_items()[1].as_ndarray();
    std::vector<std::uint32_t> read(array.bytes.view.size() / sizeof(std::uint32_t));
    std::memcpy(read.data(), array.bytes.view.data(), array.bytes.view.size());
    return {read.begin(), read.end()};
  }
  for (const Value& item : state.as_items()[1].as_items()) {
    result.push_back(item.as_int());
  }
  return result;
}

TEST(MersenneStateTest, PythonStateIsThatOfRandomSeed) {  // Values printed by CPython 3.11.
  const std::vector<std::int64_t> of_42 = words(python_random_state(42));
  ASSERT_EQ(of_42.size(), 625U);
  EXPECT_EQ(of_42[0], 2147483648);
  EXPECT_EQ(of_42[1], 3564348608);
  EXPECT_EQ(of_42[2], 1266698288);
  EXPECT_EQ(of_42[622], 955801623);
  EXPECT_EQ(of_42[623], 3831079317);
  EXPECT_EQ(of_42[624], 624);
  const std::vector<std::int64_t> of_largest = words(python_random_state(4294967295U));
  EXPECT_EQ(of_largest[1], 2159790430);
  EXPECT_EQ(of_largest[623], 2300076184);
}

TEST(MersenneStateTest, NumpyStateIsThatOfNumpyRandomSeed) {  // Values printed by numpy.
  const std::vector<std::int64_t> of_42 = words(numpy_random_state(42));
  ASSERT_EQ(of_42.size(), 624U);
  EXPECT_EQ(of_42[0], 42);
  EXPECT_EQ(of_42[1], 3107752595);
  EXPECT_EQ(of_42[2], 1895908407);
  EXPECT_EQ(of_42[622], 836540831);
  EXPECT_EQ(of_42[623], 26719530);
  const std::vector<std::int64_t> of_largest = words(numpy_random_state(4294967295U));
  EXPECT_EQ(of_largest[1], 1340201581);
  EXPECT_EQ(of_largest[623], 3413567280);
}

TEST(MersenneStateTest, NumpyStateIsOfTheTypesThatNumpyHas) {
  const Value state = numpy_random_state(42);
  const NdArray& array = state.as_items()[1].as_ndarray();
  EXPECT_EQ(array.dtype, "u4");
  EXPECT_EQ(array.shape, std::vector<std::int64_t>{624});
  EXPECT_EQ(array.names, NumpyNames::kNone);  // Every numpy can read it.
  EXPECT_EQ(checked_numpy_state(state), state);
}

TEST(MersenneStateTest, ATupleOfNumpysWordsIsReadToo) {  // cairn's own form before it had arrays.
  const std::vector<std::int64_t> of_42 = words(numpy_random_state(42));
  const Value state = Tuple{{"MT19937", Tuple{{of_42.begin(), of_42.end()}}, 624, 0, 0.0}};
  EXPECT_EQ(checked_numpy_state(state), state);
  EXPECT_EQ(words(checked_numpy_state(state)), of_42);
}

TEST(MersenneStateTest, NumpysArrayStaysOne) {
  std::string bytes(std::size_t{624} * 4, '\0');
  bytes[4] = 7;
  const NdArray array{.dtype = "u4",
                      .shape = {624},
                      .bytes = {as_bytes(bytes), nullptr},
                      .names = NumpyNames::kNumpy1};
  const Value state = checked_numpy_state(Tuple{{"MT19937", array, 3, 1, 0.5}});
  EXPECT_EQ(state.as_items()[1], Value(array));
  EXPECT_EQ(state.as_items()[1].as_ndarray().names, NumpyNames::kNumpy1);
  EXPECT_EQ(state.as_items()[2], Value(3));
}

TEST(RngTest, RestoredStatesGiveTheSameNumbers) {
  seed_all(17);
  torch::rand({5});
  torch::randn({3});  // Leaves a cached normal.
  const Value states = rng_states();
  const at::Tensor first = torch::cat({torch::rand({8}), torch::randn({7})});
  EXPECT_TRUE(restore_rng_states(states));
  EXPECT_TRUE(torch::equal(torch::cat({torch::rand({8}), torch::randn({7})}), first));
}

TEST(RngTest, StatesDoNotChangeWhenNumbersAreDrawn) {
  seed_all(3);
  const Value states = rng_states();
  const Value before = view_of(tensor_of(find_path(states, "0/torch")->as_tensor()));
  torch::rand({1000});
  EXPECT_EQ(*find_path(states, "0/torch"), before);
}

TEST(RngTest, PythonsStatesAreCarriedOver) {
  seed_all(1);
  Value states = rng_states();
  const Value carried = Dict{{"python", python_random_state(99)},
                             {"numpy", numpy_random_state(98)},
                             {"torch", *find_path(states, "0/torch")}};
  restore_rng_states(List{carried});
  EXPECT_EQ(*find_path(rng_states(), "0/python"), python_random_state(99));
  EXPECT_EQ(*find_path(rng_states(), "0/numpy"), numpy_random_state(98));
}

TEST(RngTest, MalformedStatesAreListedAndNothingIsChanged) {
  seed_all(5);
  const Value before = rng_states();
  const Value bad = List{Dict{{"python", Tuple{{3, Tuple{{1, 2}}, None{}}}},
                              {"numpy", Tuple{{"PCG64", 1, 2, 3, 4}}},
                              {"torch", view_of(torch::zeros({100}, at::kByte))}}};
  try {
    restore_rng_states(bad);
    FAIL() << "no error";
  } catch (const MismatchError& e) {
    EXPECT_THAT(e.what(), HasSubstr("rng/0/python"));
    EXPECT_THAT(e.what(), HasSubstr("rng/0/numpy"));
    EXPECT_THAT(e.what(), HasSubstr("rng/0/torch"));
  }
  EXPECT_EQ(rng_states(), before);
}

TEST(RngTest, ListsOfOtherLengthsAreNoErrorButAWarning) {
  seed_all(5);
  const Value one = rng_states();
  EXPECT_FALSE(restore_rng_states(List{}));
  EXPECT_THAT(check_rng_states(List{}).warnings, SizeIs(1));
  const Value two = List{one.as_items()[0], one.as_items()[0]};
  EXPECT_TRUE(restore_rng_states(two));
  EXPECT_THAT(check_rng_states(two).warnings, SizeIs(1));
  EXPECT_THAT(check_rng_states(one).misfits, IsEmpty());
  const Value partial = List{Dict{{"torch", *find_path(one, "0/torch")}}};
  EXPECT_TRUE(restore_rng_states(partial));
  EXPECT_THAT(check_rng_states(partial).warnings, SizeIs(2));
}

TEST(RngTest, SeedsOutOfRangeAreRefused) {
  EXPECT_THROW(seed_all(-1), UsageError);
  EXPECT_THROW(seed_all(std::int64_t{1} << 32), UsageError);
  EXPECT_NO_THROW(seed_all((std::int64_t{1} << 32) - 1));
  EXPECT_GE(random_seed(), 0);
}

TEST(RngTest, AStateThatNoGeneratorHasIsNotMade) {
  seed_all(6);
  const Value present = rng_states();
  TensorView huge = find_path(present, "0/torch")->as_tensor();
  huge.shape = {std::int64_t{1} << 37};
  huge.strides = {0};
  const Value states = List{Dict{{"torch", huge}}};
  EXPECT_THAT(check_rng_states(states).misfits, ElementsAre(HasSubstr("137438953472 bytes")));
}

}  // namespace
}  // namespace cairn
