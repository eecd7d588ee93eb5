#include "io/bytes/range_batches.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace cairn {
namespace {

using Range = ByteSource::Range;

// The arguments of the calls that for_each_batch() makes: the offsets and sizes of each batch.
using Batches = std::vector<std::vector<std::pair<std::uint64_t, std::size_t>>>;

Batches batches_of(const std::vector<Range>& ranges, const BatchSize& most) {
  Batches batches;
  for_each_batch(ranges, most, [&](const std::vector<Range>& batch) {
    batches.emplace_back();
    for (const Range& range : batch)
      batches.back().emplace_back(range.offset, range.into.size());
  });
  return batches;
}

class RangeBatchesTest : public ::testing::Test {
 protected:
  Range range(std::uint64_t offset, std::size_t size) { return {offset, {memory_.data(), size}}; }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(100);
};

TEST_F(RangeBatchesTest, WithoutBytesThereIsNoBatch) {
  EXPECT_EQ(batches_of({}, {.ranges = 2, .bytes = 10}), Batches());
  EXPECT_EQ(batches_of({range(3, 0), range(5, 0)}, {.ranges = 2, .bytes = 10}), Batches());
}

TEST_F(RangeBatchesTest, ABatchHasAsManyRangesAndBytesAsItMay) {
  EXPECT_EQ(
      batches_of({range(0, 4), range(9, 1), range(2, 0), range(20, 3)}, {.ranges = 2, .bytes = 10}),
      (Batches{{{0, 4}, {9, 1}}, {{20, 3}}}));
  EXPECT_EQ(batches_of({range(0, 6), range(8, 4), range(30, 2)}, {.ranges = 5, .bytes = 10}),
            (Batches{{{0, 6}, {8, 4}}, {{30, 2}}}));
}

TEST_F(RangeBatchesTest, ARangeIsCutWhereABatchIsFull) {
  EXPECT_EQ(batches_of({range(0, 7), range(50, 25)}, {.ranges = 5, .bytes = 10}),
            (Batches{{{0, 7}, {50, 3}}, {{53, 10}}, {{63, 10}}, {{73, 2}}}));
}

TEST_F(RangeBatchesTest, ThePlacesAreCutAsTheRangesAre) {
  std::vector<std::byte> memory(8);
  std::vector<std::byte*> places;
  for_each_batch(std::vector<Range>{{0, memory}}, {.ranges = 1, .bytes = 5},
                 [&](const std::vector<Range>& batch) { places.push_back(batch[0].into.data()); });
  EXPECT_EQ(places, (std::vector<std::byte*>{memory.data(), memory.data() + 5}));
}

}  // namespace
}  // namespace cairn
