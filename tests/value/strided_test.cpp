// Compares the strided copy with a copy of one element after another.
#include "value/tensor/strided.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace cairn {
namespace {

Dims random_dims(std::size_t rank, std::int64_t least, std::int64_t most) {
  return *rc::gen::container<Dims>(rank, rc::gen::inRange<std::int64_t>(least, most + 1));
}

// Strides of a box of `shape` inside a box that is larger at its ends, with its dimensions in any
// order.
Dims random_strides(const Dims& shape) {
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  Dims strides(shape.size());
  std::int64_t next = *rc::gen::inRange<std::int64_t>(1, 3);
  for (const std::size_t d : order) {
    strides[d] = next;
    next *= shape[d] + *rc::gen::inRange<std::int64_t>(0, 2);
    next = std::max<std::int64_t>(next, 1);
  }
  return strides;
}

std::size_t place(const Dims& index, const Dims& strides) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    at += index[d] * strides[d];
  }
  return static_cast<std::size_t>(at);
}

// Calls use(index) for every position, in row-major order.
void for_each_index(const Dims& shape, const std::function<void(const Dims&)>& use) {
  const std::int64_t count =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  for (std::int64_t i = 0; i < count; ++i) {
    Dims index(shape.size());
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      index[d] = rest % shape[d];
    }
    use(index);
  }
}

RC_GTEST_PROP(StridedTest, ABoxIsCopiedElementByElement, ()) {
  const Dims shape = random_dims(*rc::gen::inRange<std::size_t>(0, 5), 0, 4);
  const Dims from_strides = random_strides(shape);
  const Dims to_strides = random_strides(shape);
  const std::size_t item = *rc::gen::element<std::size_t>(1, 2, 4, 8, 16, 3);
  std::vector<std::byte> from((place(shape, from_strides) + 1) * item);
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<std::byte>(i * 31 + i / 256);
  }
  std::vector<std::byte> found((place(shape, to_strides) + 1) * item);
  std::vector<std::byte> expected = found;
  for_each_index(shape, [&](const Dims& index) {
    std::memcpy(expected.data() + place(index, to_strides) * item,
                from.data() + place(index, from_strides) * item, item);
  });
  copy_strided(shape, item, {found.data(), to_strides}, {from.data(), from_strides});
  RC_ASSERT(found == expected);
}

RC_GTEST_PROP(StridedTest, BoxesAreTheRangeOfElementsInOrder, ()) {
  const Dims shape = random_dims(*rc::gen::inRange<std::size_t>(0, 5), 1, 4);
  std::vector<Dims> all;
  for_each_index(shape, [&](const Dims& index) { all.push_back(index); });
  const auto first = *rc::gen::inRange<std::size_t>(0, all.size() + 1);
  const auto count = *rc::gen::inRange<std::size_t>(0, all.size() - first + 1);
  std::vector<Dims> found;
  std::size_t boxes = 0;
  for_each_box(shape, first, count, [&](const Dims& offsets, const Dims& sizes) {
    ++boxes;
    for_each_index(sizes, [&](Dims index) {
      for (std::size_t d = 0; d < index.size(); ++d) {
        index[d] += offsets[d];
      }
      found.push_back(index);
    });
  });
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  RC_ASSERT(found == std::vector<Dims>(begin, begin + static_cast<std::ptrdiff_t>(count)));
  RC_ASSERT(boxes <= std::max<std::size_t>(1, 2 * shape.size()));
}

TEST(StridedTest, WhatIsMadeByTheElementIsCutToTheBytes) {
  const auto fill = [](std::uint64_t first, std::span<std::byte> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::byte>(first * 4 + i);
    }
  };
  for (std::uint64_t begin = 0; begin < 12; ++begin) {
    for (std::uint64_t end = begin; end <= 12; ++end) {
      std::vector<std::byte> out(end - begin);
      fill_from_elements(4, begin, out, fill);
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i], static_cast<std::byte>(begin + i));
      }
    }
  }
}

}  // namespace
}  // namespace cairn
