// tests/cli/dump_test.cpp compares the dense form of valid sparse tensors with PyTorch's. These
// tests cover tensors that contradict themselves, and the cost of a stream.
#include "cairn/sparse_tensor.h"

#include <gtest/gtest.h>

#include <numeric>

#include "cairn/error.h"

namespace cairn {
namespace {

template <class T>
SharedBytes shared_bytes(std::vector<T> numbers) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(numbers));
  return {std::as_bytes(std::span(*owner)), owner};
}

TensorView longs(std::vector<std::int64_t> shape, std::vector<std::int64_t> numbers) {
  return make_tensor(DType::kInt64, std::move(shape), shared_bytes(std::move(numbers)));
}

TensorView bytes_of(std::vector<std::int64_t> shape) {
  std::vector<std::uint8_t> numbers(static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
  std::iota(numbers.begin(), numbers.end(), std::uint8_t{1});
  return make_tensor(DType::kUInt8, std::move(shape), shared_bytes(std::move(numbers)));
}

SparseTensor coo(std::vector<std::int64_t> indices, std::vector<std::int64_t> shape) {
  const auto count = static_cast<std::int64_t>(indices.size());
  SparseTensor tensor;
  tensor.shape = std::move(shape);
  tensor.indices = longs({1, count}, std::move(indices));
  tensor.values = bytes_of({count});
  return tensor;
}

// A tensor of 3 rows and 4 columns.
SparseTensor csr(std::vector<std::int64_t> rows, std::vector<std::int64_t> columns) {
  const auto count = static_cast<std::int64_t>(columns.size());
  SparseTensor tensor;
  tensor.layout = Layout::kSparseCsr;
  tensor.shape = {3, 4};
  const auto bounds = static_cast<std::int64_t>(rows.size());
  tensor.compressed_indices = longs({bounds}, std::move(rows));
  tensor.indices = longs({count}, std::move(columns));
  tensor.values = bytes_of({count});
  return tensor;
}

std::vector<int> dense(const SparseTensor& tensor) {
  std::vector<int> out;
  for_each_dense_piece(tensor, [&](ByteView piece) {
    for (const std::byte byte : piece) {
      out.push_back(static_cast<int>(byte));
    }
  });
  return out;
}

TEST(SparseTensorTest, EqualIndicesAreAddedUpInAnyOrder) {
  EXPECT_EQ(dense(coo({3, 1, 3}, {5})), (std::vector<int>{0, 2, 0, 4, 0}));
  EXPECT_EQ(dense(coo({1, 3, 3}, {5})), (std::vector<int>{0, 1, 0, 5, 0}));
}

TEST(SparseTensorTest, RowsOfCsr) {
  EXPECT_EQ(dense(csr({0, 1, 1, 3}, {2, 0, 3})),
            (std::vector<int>{0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 3}));
}

TEST(SparseTensorTest, IndicesOutsideTheShapeAreCorrupt) {
  EXPECT_THROW(dense(coo({0, 5}, {5})), CorruptError);
  EXPECT_THROW(dense(coo({-1}, {5})), CorruptError);
  EXPECT_THROW(dense(csr({0, 1, 1, 2}, {0, 4})), CorruptError);
}

TEST(SparseTensorTest, CompressedIndicesThatDoNotAscendAreCorrupt) {
  EXPECT_THROW(dense(csr({0, 2, 1, 2}, {0, 1})), CorruptError);
  EXPECT_THROW(dense(csr({1, 1, 1, 2}, {0, 1})), CorruptError);
  EXPECT_THROW(dense(csr({0, 1, 1, 1}, {0, 1})), CorruptError);
  EXPECT_THROW(dense(csr({0, 1, 9, 2}, {0, 1})), CorruptError);
  EXPECT_THROW(dense(csr({0, -1, 1, 2}, {0, 1})), CorruptError);
}

TEST(SparseTensorTest, ADenseFormOutOfProportionIsNeverMade) {
  SparseTensor tensor = coo({0}, {std::int64_t{1} << 32});
  EXPECT_FALSE(is_dense_form_in_proportion(tensor));
  std::uint64_t given = 0;
  EXPECT_THROW(for_each_dense_piece(tensor, [&](ByteView piece) { given += piece.size(); }),
               UnsupportedError);
  EXPECT_EQ(given, 0U);
  tensor.shape = {std::int64_t{64} << 20};
  EXPECT_TRUE(is_dense_form_in_proportion(tensor));
}

TEST(SparseTensorTest, IndicesThatAreOneNumberAgainAndAgainAreCorrupt) {
  SparseTensor tensor = csr({0, 1, 1, 1}, {0});
  constexpr std::int64_t kRows = std::int64_t{1} << 24;
  tensor.shape = {kRows, 1};
  tensor.compressed_indices = longs({1}, {0});
  tensor.compressed_indices.shape = {kRows + 1};
  tensor.compressed_indices.strides = {0};
  tensor.indices = longs({0}, {});
  tensor.values = bytes_of({0});
  EXPECT_THROW(dense(tensor), CorruptError);
}

TEST(SparseTensorTest, AnElementStoredTwiceIsCorruptWhereNothingIsAdded) {
  EXPECT_THROW(dense(csr({0, 2, 2, 2}, {1, 1})), CorruptError);
}

TEST(SparseTensorTest, PartsThatDoNotFitAreCorrupt) {
  SparseTensor tensor = coo({0, 1}, {5});
  tensor.values = bytes_of({3});
  EXPECT_THROW(check_structure(tensor), CorruptError);
  tensor = coo({0, 1}, {5});
  tensor.shape = {5, 5};
  EXPECT_THROW(check_structure(tensor), CorruptError);
  tensor = coo({0, 1}, {5});
  tensor.shape = {-5};
  EXPECT_THROW(check_structure(tensor), CorruptError);
  tensor = csr({0, 1, 1}, {0});
  EXPECT_THROW(check_structure(tensor), CorruptError);
  tensor = csr({0, 1, 1, 1}, {0});
  tensor.layout = Layout::kSparseBsr;
  EXPECT_THROW(check_structure(tensor), CorruptError);
  tensor.values = bytes_of({1, 2, 2});  // blocks that do not fill 3 rows
  EXPECT_THROW(check_structure(tensor), CorruptError);
  EXPECT_THROW(check_structure(SparseTensor{}), CorruptError);
}

TEST(SparseTensorTest, ADenseFormOutOfProportionIsRefusedBeforeItIsMade) {
  EXPECT_THROW(dense(coo({0}, {std::int64_t{1} << 50})), UnsupportedError);
  EXPECT_THROW(check_structure(coo({0}, {std::int64_t{1} << 62, 4})), CorruptError);
}

TEST(SparseTensorTest, MoreValuesThanBytesAreCorrupt) {
  SparseTensor tensor = coo({0}, {5});
  tensor.indices.shape = {1, std::int64_t{1} << 40};
  tensor.indices.strides = {0, 0};
  tensor.values.shape = {std::int64_t{1} << 40};
  tensor.values.strides = {0};
  EXPECT_THROW(dense(tensor), CorruptError);
}

TEST(SparseTensorTest, NamesOfLayoutsAreFound) {
  for (const char* name : {"torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc",
                           "torch.sparse_bsr", "torch.sparse_bsc"}) {
    ASSERT_TRUE(find_layout(name).has_value());
    EXPECT_EQ(cairn::name(*find_layout(name)), name);
  }
  EXPECT_FALSE(find_layout("torch.strided").has_value());
}

}  // namespace
}  // namespace cairn
