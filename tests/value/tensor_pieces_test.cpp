#include "value/tensor/tensor_pieces.h"

#include <gtest/gtest.h>

#include <numeric>

#include "cairn/error.h"

namespace cairn {
namespace {

// 0, 1, 2, ... as int32.
std::shared_ptr<const Storage> counting_storage(std::size_t count) {
  auto numbers = std::make_shared<std::vector<std::int32_t>>(count);
  std::iota(numbers->begin(), numbers->end(), 0);
  return storage_of(SharedBytes{std::as_bytes(std::span(*numbers)), numbers});
}

std::string all_pieces(const TensorView& tensor, std::size_t piece_elements) {
  std::string bytes;
  TensorPieces pieces(tensor, piece_elements);
  for (ByteView piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    EXPECT_LE(piece.size(), piece_elements * item_size(tensor.dtype));
    bytes += as_text(piece);
  }
  EXPECT_TRUE(pieces.next().empty());
  return bytes;
}

TEST(TensorPiecesTest, TogetherAreTheContiguousBytes) {
  const auto storage = counting_storage(200);
  const std::vector<TensorView> tensors = {
      {.shape = {}, .strides = {}, .storage_offset = 7},
      {.shape = {0, 3}, .strides = {3, 1}},
      {.shape = {200}, .strides = {1}},
      {.shape = {99}, .strides = {2}, .storage_offset = 1},
      {.shape = {5, 4, 3}, .strides = {12, 3, 1}, .storage_offset = 9},
      {.shape = {3, 4, 5}, .strides = {1, 3, 12}},  // transposed
      {.shape = {6, 7}, .strides = {20, 1}},        // a window
      {.shape = {6, 7}, .strides = {0, 3}},         // expanded
      {.shape = {2, 1, 3, 1}, .strides = {50, 9, 7, 11}, .storage_offset = 3},
  };
  for (TensorView tensor : tensors) {
    tensor.dtype = DType::kInt32;
    tensor.storage = storage;
    const SharedBytes expected = tensor.contiguous_bytes();
    for (const std::size_t piece_elements : {1, 2, 3, 7, 64, 1000}) {
      EXPECT_EQ(all_pieces(tensor, piece_elements), as_text(expected.view));
    }
  }
}

TEST(TensorPiecesTest, GiveBackWhatIsDoneAndLoadALazyStorageOnce) {
  static std::size_t released = 0;
  released = 0;
  int loads = 0;
  const std::vector<std::byte> bytes(100);
  const auto load = [&]() -> SharedBytes {
    ++loads;
    return {bytes, nullptr, [](ByteView part, const void*) { released += part.size(); }};
  };
  const TensorView tensor{
      .dtype = DType::kUInt8, .shape = {100}, .strides = {1}, .storage = storage_of(100, load)};
  EXPECT_EQ(all_pieces(tensor, 30).size(), 100);
  EXPECT_EQ(released, 100);
  EXPECT_EQ(loads, 1);
}

TEST(TensorPiecesTest, RefuseWhatLiesOutsideAndWhatWouldNeverEnd) {
  TensorView tensor{.dtype = DType::kInt32,
                    .shape = {4},
                    .strides = {1},
                    .storage_offset = 1,
                    .storage = counting_storage(4)};
  EXPECT_THROW(TensorPieces(tensor, 10), CorruptError);
  tensor.storage_offset = 0;
  tensor.shape = {std::int64_t{1} << 50, 4};
  tensor.strides = {0, 1};
  EXPECT_THROW(TensorPieces(tensor, 10), CorruptError);
}

}  // namespace
}  // namespace cairn
