#include "cairn/sparse_tensor.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "cairn/error.h"

#include "core/checked.h"

namespace cairn {
namespace {

using Sizes = std::span<const std::int64_t>;

constexpr std::array kNames = {"torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc",
                               "torch.sparse_bsr", "torch.sparse_bsc"};

void require(bool holds, const char* what) {
  if (!holds) throw CorruptError(std::string("a sparse tensor contradicts itself: ") + what);
}

bool equal(Sizes a, Sizes b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

bool compresses_rows(Layout layout) {
  return layout == Layout::kSparseCsr || layout == Layout::kSparseBsr;
}
bool has_blocks(Layout layout) {
  return layout == Layout::kSparseBsr || layout == Layout::kSparseBsc;
}

void check_coo(const SparseTensor& tensor) {
  const Sizes indices = tensor.indices.shape;
  const Sizes values = tensor.values.shape;
  const Sizes shape = tensor.shape;
  require(tensor.indices.dtype == DType::kInt64, "its indices are not int64");
  require(indices.size() == 2 && !values.empty(), "its indices or values have too few dimensions");
  require(indices[1] == values[0], "it has not the same number of values and indices");
  const auto sparse_dims = static_cast<std::size_t>(indices[0]);
  require(sparse_dims <= shape.size() && equal(values.subspan(1), shape.subspan(sparse_dims)),
          "its values do not have its shape");
}

void check_compressed(const SparseTensor& tensor) {
  const Sizes compressed = tensor.compressed_indices.shape;
  const Sizes plain = tensor.indices.shape;
  const Sizes values = tensor.values.shape;
  const Sizes shape = tensor.shape;
  const DType index_type = tensor.indices.dtype;
  require(index_type == tensor.compressed_indices.dtype &&
              (index_type == DType::kInt64 || index_type == DType::kInt32),
          "its indices are not all int64 or all int32");
  require(!compressed.empty() && plain.size() == compressed.size(),
          "its indices differ in their dimensions");
  const std::size_t batch = compressed.size() - 1;
  const std::size_t block = has_blocks(tensor.layout) ? 2 : 0;
  require(shape.size() >= batch + 2 && values.size() == shape.size() - 1 + block,
          "its values have too many or too few dimensions");
  require(equal(compressed.first(batch), shape.first(batch)) &&
              equal(plain.first(batch), shape.first(batch)) &&
              equal(values.first(batch), shape.first(batch)),
          "its parts differ in their batch dimensions");
  require(values[batch] == plain[batch], "it has not the same number of values and indices");
  std::array sizes = {shape[batch], shape[batch + 1]};
  if (block > 0) {
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t of_block = values[batch + 1 + d];
      require(of_block > 0 && sizes[d] % of_block == 0, "its blocks do not fill its shape");
      sizes[d] /= of_block;
    }
  }
  require(compressed[batch] == sizes[compresses_rows(tensor.layout) ? 0 : 1] + 1,
          "its compressed indices do not have its shape");
  require(equal(values.subspan(batch + 1 + block), shape.subspan(batch + 2)),
          "its values do not have its shape");
}

}  // namespace

std::string_view name(Layout layout) { return kNames[static_cast<std::size_t>(layout)]; }

std::optional<Layout> find_layout(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Layout>(i);
  }
  return std::nullopt;
}

std::int64_t SparseTensor::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) {
    n = checked_multiply(n, size);
  }
  return n;
}

std::vector<std::pair<std::string_view, const TensorView*>> parts_of(const SparseTensor& tensor) {
  if (tensor.layout == Layout::kSparseCoo) {
    return {{"indices", &tensor.indices}, {"values", &tensor.values}};
  }
  const bool by_row = compresses_rows(tensor.layout);
  return {{by_row ? "crow_indices" : "ccol_indices", &tensor.compressed_indices},
          {by_row ? "col_indices" : "row_indices", &tensor.indices},
          {"values", &tensor.values}};
}

void check_structure(const SparseTensor& tensor) {
  std::uint64_t stored = 0;
  for (const auto& [name, part] : parts_of(tensor)) {
    check_bounds(*part);
    part->numel();  // throws if the product overflows
    require(part->quantizer == nullptr, "one of its parts is quantized");
    if (part->storage) stored = checked_add(stored, part->storage->size());
  }
  require(
      std::all_of(tensor.shape.begin(), tensor.shape.end(), [](auto size) { return size >= 0; }),
      "a size is negative");
  checked_multiply(static_cast<std::uint64_t>(tensor.numel()),
                   static_cast<std::uint64_t>(item_size(tensor.dtype())));
  if (tensor.layout == Layout::kSparseCoo) {
    check_coo(tensor);
  } else {
    check_compressed(tensor);
  }
}

}  // namespace cairn
