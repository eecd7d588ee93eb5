#include "value/tensor/tensor_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "cairn/error.h"

#include "testing/string_sink.h"

namespace cairn {
namespace {

std::string streamed(const TensorView& tensor, std::size_t tile_bytes = kTileBytes) {
  testing::StringSink sink;
  write_elements(tensor, tensor.storage->bytes(), sink, tile_bytes);
  return sink.text;
}

std::shared_ptr<const Storage> noise_storage(std::size_t bytes) {
  std::string text(bytes, '\0');
  std::uint32_t state = 1;
  for (char& c : text) {
    state = state * 1'664'525 + 1'013'904'223;
    c = static_cast<char>(state >> 24);
  }
  return storage_of(testing::shared(text));
}

// A random view: dimensions in any order, with steps, an offset, and repeated dimensions.
TensorView random_view(std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  constexpr DType kDTypes[] = {DType::kUInt8, DType::kBFloat16, DType::kFloat32, DType::kInt64,
                               DType::kComplex128};
  TensorView view;
  view.dtype = kDTypes[draw(0, 4)];
  const auto rank = static_cast<std::size_t>(draw(0, 4));
  for (std::size_t d = 0; d < rank; ++d) {
    view.shape.push_back(draw(1, 7));
  }
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  view.strides.resize(rank);
  std::int64_t stride = 1;
  for (const std::size_t d : order) {
    view.strides[d] = draw(0, 9) == 0 ? 0 : stride * draw(1, 2);
    stride = std::max<std::int64_t>(stride, view.strides[d]) * view.shape[d];
  }
  view.storage_offset = draw(0, 3);
  std::int64_t last = view.storage_offset;
  for (std::size_t d = 0; d < rank; ++d) {
    last += (view.shape[d] - 1) * view.strides[d];
  }
  view.storage = noise_storage(static_cast<std::size_t>(last + 1) * item_size(view.dtype));
  return view;
}

TEST(TensorStreamTest, AnyViewStreamsAsItsContiguousBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const TensorView view = random_view(random);
    const std::string expected(as_text(view.contiguous_bytes().view));
    for (const std::size_t tile : {std::size_t{1}, std::size_t{24}, std::size_t{100}, kTileBytes}) {
      ASSERT_EQ(streamed(view, tile), expected) << "view " << i << ", tile " << tile;
    }
  }
}

TEST(TensorStreamTest, TensorsWithoutElementsStreamNothing) {
  EXPECT_EQ(streamed({.shape = {0, 3}, .strides = {3, 1}, .storage = noise_storage(0)}), "");
}

TEST(TensorStreamTest, RefusesWhatReachesOutsideAndWhatRepeatsAbsurdly) {
  const auto storage = noise_storage(8);
  EXPECT_THROW(streamed({.shape = {3}, .strides = {1}, .storage = storage}), CorruptError);
  EXPECT_THROW(streamed({.shape = {std::int64_t{1} << 60}, .strides = {0}, .storage = storage}),
               CorruptError);
}

std::size_t releases = 0;

TEST(TensorStreamTest, GivesMappedMemoryBackOnTheWay) {
  constexpr std::int64_t kRows = 3000;  // 36 MB of floats, transposed
  const auto storage = noise_storage(kRows * kRows * 4);
  SharedBytes bytes = storage->bytes();
  bytes.release_pages = [](ByteView, const void*) { ++releases; };
  const TensorView view{.shape = {kRows, kRows}, .strides = {1, kRows}, .storage = storage};
  releases = 0;
  testing::StringSink sink;
  write_elements(view, bytes, sink, std::size_t{1} << 20);
  // Every tile touches a window of each of 3000 rows: 36 MB each time.
  EXPECT_GE(releases, 10U);
  EXPECT_LE(releases, 100U);
  EXPECT_EQ(sink.text, as_text(view.contiguous_bytes().view));
}

}  // namespace
}  // namespace cairn
