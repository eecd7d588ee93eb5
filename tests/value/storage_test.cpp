// Properties of every kind of Storage, and of a kind that a program defines.
#include <gtest/gtest.h>

#include <algorithm>

#include "cairn/error.h"
#include "cairn/tensor.h"

#include "testing/counting_source.h"
#include "testing/storage_ranges.h"
#include "testing/string_sink.h"

namespace cairn {
namespace {

using testing::shared;
using testing::source_with;
using testing::wrong_range_of;

// Memory that can only be copied from, like a device's.
class FarStorage final : public Storage {
 public:
  explicit FarStorage(std::string bytes)
      : Storage(bytes.size(), "cuda:0"), bytes_(std::move(bytes)) {}
  std::size_t copies() const { return copies_; }
  std::size_t bytes_copied() const { return bytes_copied_; }

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    ++copies_;
    bytes_copied_ += into.size();
    std::ranges::copy(as_bytes(bytes_).subspan(offset, into.size()), into.begin());
  }

 private:
  std::string bytes_;
  mutable std::size_t copies_ = 0;
  mutable std::size_t bytes_copied_ = 0;
};

std::vector<std::shared_ptr<const Storage>> all_kinds() {
  return {storage_of(shared("0123456789")), storage_of(source_with("ab0123456789c"), 2, 10),
          storage_of(10, [] { return shared("0123456789"); }),
          std::make_shared<const FarStorage>("0123456789")};
}

TEST(StorageTest, EveryKindGivesAnyPartAndTheWhole) {
  for (const auto& storage : all_kinds()) {
    EXPECT_EQ(storage->size(), 10U);
    EXPECT_EQ(as_text(storage->bytes().view), "0123456789");
    EXPECT_EQ(as_text(storage->bytes(3, 4).view), "3456");
    EXPECT_EQ(as_text(storage->bytes(10, 0).view), "");
    EXPECT_EQ(wrong_range_of(*storage), "");
  }
}

TEST(StorageTest, WhatReachesOutsideIsAUsageError) {
  std::vector<std::byte> two(2);
  for (const auto& storage : all_kinds()) {
    EXPECT_THROW(storage->read_into(9, two), UsageError);
    EXPECT_THROW(storage->read_into(~std::uint64_t{0}, two), UsageError);
    EXPECT_NO_THROW(storage->read_into(10, {}));
    EXPECT_THROW(storage->bytes(9, 2), UsageError);
    EXPECT_THROW(storage->bytes(2, ~std::uint64_t{0}), UsageError);
  }
}

TEST(StorageTest, OnlyWhatCostsNothingIsShown) {
  const auto kinds = all_kinds();
  EXPECT_TRUE(kinds[0]->try_view());
  EXPECT_TRUE(kinds[1]->try_view());
  EXPECT_FALSE(kinds[2]->try_view());
  EXPECT_FALSE(kinds[3]->try_view());
}

TEST(StorageTest, APartOfARangeReadsThatPartAndNoMore) {
  const auto source = std::make_shared<const testing::CountingSource>(source_with("ab0123456789c"));
  const auto storage = storage_of(source, 2, 10);
  EXPECT_FALSE(storage->try_view());
  EXPECT_EQ(storage->source(), source.get());
  EXPECT_EQ(storage->source_offset(), 2U);
  std::string part(3, '\0');
  storage->read_into(4, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "456");
  EXPECT_EQ(source->reads, 1U);
  EXPECT_EQ(source->bytes, 3U);
}

TEST(StorageTest, OneOfAProgramsOwnIsReadByTensors) {
  const auto storage = std::make_shared<const FarStorage>(std::string("\1\2\3\4\5\6", 6));
  EXPECT_EQ(storage->location(), "cuda:0");
  TensorView transposed{
      .dtype = DType::kUInt8, .shape = {3, 2}, .strides = {1, 3}, .storage = storage};
  EXPECT_EQ(as_text(transposed.contiguous_bytes().view), std::string("\1\4\2\5\3\6", 6));
  EXPECT_EQ(storage->copies(), 1U);
  const TensorView row{.dtype = DType::kUInt8,
                       .shape = {2},
                       .strides = {1},
                       .storage_offset = 1,
                       .storage = storage};
  EXPECT_EQ(as_text(row.contiguous_bytes().view), "\2\3");
  EXPECT_EQ(storage->bytes_copied(), 6U + 2U);  // of a part only its own bytes
}

TEST(StorageTest, BytesOfAnotherLengthAreCorrupt) {
  const auto storage = storage_of(4, [] { return shared("123"); });
  std::vector<std::byte> one(1);
  EXPECT_THROW(storage->bytes(), CorruptError);
  EXPECT_THROW(storage->read_into(0, one), CorruptError);
}

}  // namespace
}  // namespace cairn
