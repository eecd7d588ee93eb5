// Sparse tensors: the elements that are not zero, and where they are. As in PyTorch, a sparse
// tensor is made of dense ones.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/tensor.h"

namespace cairn {

// PyTorch's sparse layouts.
enum class Layout : std::uint8_t { kSparseCoo, kSparseCsr, kSparseCsc, kSparseBsr, kSparseBsc };

// PyTorch's name: "torch.sparse_coo".
std::string_view name(Layout layout);
// The inverse of name(); nullopt for a name that is none, and for "torch.strided".
std::optional<Layout> find_layout(std::string_view name);

// With `n` stored elements (for BSR and BSC: blocks):
//
//   COO        indices [sparse dimensions, n]     values [n, dense dimensions...]
//   CSR, BSR   compressed_indices [batch..., rows + 1]      plain_indices [batch..., n]
//   CSC, BSC   compressed_indices [batch..., columns + 1]   plain_indices [batch..., n]
//              values [batch..., n, (block rows, block columns,) dense dimensions...]
//
// rows and columns count blocks in BSR and BSC. Indices are int64, in the compressed layouts also
// int32. Copies share the storages.
struct SparseTensor {
  Layout layout = Layout::kSparseCoo;
  Dims shape = {};
  TensorView compressed_indices = {};  // not of COO
  TensorView indices = {};             // of COO; the plain indices of the others
  TensorView values = {};
  // COO: whether every index occurs once, in order; nullopt when the file does not say.
  std::optional<bool> is_coalesced = std::nullopt;
  // CSR: in the form of PyTorch 1.13, which no newer one reads, and which alone 1.13 reads.
  bool is_csr_of_113 = false;
  bool requires_grad = false;
  bool is_parameter = false;  // was a torch.nn.Parameter

  DType dtype() const { return values.dtype; }
  std::int64_t numel() const;  // of the dense form
};

// The dense tensors that it is made of, in PyTorch's order and by PyTorch's names ("crow_indices",
// "col_indices", "values"). The pointers are into `tensor`.
std::vector<std::pair<std::string_view, const TensorView*>> parts_of(const SparseTensor& tensor);

// Throws CorruptError unless the parts fit one another and the shape. Reads no tensor's bytes: that
// the indices lie inside the shape is checked when they are used.
void check_structure(const SparseTensor& tensor);

// Whether the dense form takes at most 64 MiB, or 64 bytes for each byte of the parts' storages: a
// file of a kilobyte may claim exabytes.
bool is_dense_form_in_proportion(const SparseTensor& tensor);

// Calls `use` with the elements of the dense form in row-major order, little-endian, piece by
// piece, as PyTorch's to_dense() gives them: where a COO index occurs more than once, the values
// are added up. Takes no memory when the elements are stored in order, else 24 bytes for each.
// CorruptError for indices that are outside the shape or contradict one another; UnsupportedError
// unless is_dense_form_in_proportion(), and when values of a type without addition have to be
// added.
void for_each_dense_piece(const SparseTensor& tensor, const std::function<void(ByteView)>& use);

}  // namespace cairn
