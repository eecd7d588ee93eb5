// Sparse tensors: the elements that are not zero, and their indices. As in PyTorch, a sparse tensor
// consists of dense ones.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/tensor.h"

namespace CAIRN_PUBLIC cairn {

// PyTorch's sparse layouts.
enum class Layout : std::uint8_t { kSparseCoo, kSparseCsr, kSparseCsc, kSparseBsr, kSparseBsc };

// PyTorch's name: "torch.sparse_coo".
std::string_view name(Layout layout);
// The inverse of name(); nullopt for an unknown name, and for "torch.strided".
std::optional<Layout> find_layout(std::string_view name);

// The parts, with `n` stored elements (for BSR and BSC: blocks):
//
//   COO        indices [sparse dimensions, n]     values [n, dense dimensions...]
//   CSR, BSR   compressed_indices [batch..., rows + 1]      plain_indices [batch..., n]
//   CSC, BSC   compressed_indices [batch..., columns + 1]   plain_indices [batch..., n]
//              values [batch..., n, (block rows, block columns,) dense dimensions...]
//
// rows and columns count blocks in BSR and BSC. Indices are int64; in the compressed layouts they
// may be int32, too. Copies share the storages.
struct SparseTensor {
  Layout layout = Layout::kSparseCoo;
  Dims shape = {};
  TensorView compressed_indices = {};  // empty for COO
  TensorView indices = {};             // the indices of COO; the plain indices of the others
  TensorView values = {};
  // COO: whether every index occurs once, in order; nullopt if the file does not say it.
  std::optional<bool> is_coalesced = std::nullopt;
  // CSR: in the form of PyTorch 1.13, which reads only this form. Newer versions do not read it.
  bool is_csr_of_113 = false;
  bool requires_grad = false;
  bool is_parameter = false;  // it was a torch.nn.Parameter

  DType dtype() const { return values.dtype; }
  std::int64_t numel() const;  // of the dense form
};

// The dense tensors that `tensor` consists of, in PyTorch's order and by PyTorch's names
// ("crow_indices", "col_indices", "values"). The pointers are into `tensor`.
std::vector<std::pair<std::string_view, const TensorView*>> parts_of(const SparseTensor& tensor);

// Throws CorruptError unless the parts fit one another and the shape. Reads no tensor's bytes:
// for_each_dense_piece() checks that the indices lie inside the shape.
void check_structure(const SparseTensor& tensor);

// Whether the dense form takes at most 64 MiB, or 64 bytes for each byte of the parts' storages.
// Without this limit a file of a kilobyte could claim a dense form of exabytes.
bool is_dense_form_in_proportion(const SparseTensor& tensor);

// Calls `use` with the elements of the dense form in row-major order, little-endian, piece by
// piece, as PyTorch's to_dense() gives them. If a COO index occurs more than once, its values are
// added. Takes no memory if the elements are stored in order, otherwise 24 bytes for each. Throws
// CorruptError for indices outside the shape or contradictory ones. Throws UnsupportedError unless
// is_dense_form_in_proportion(), and if values of a type without addition have to be added.
void for_each_dense_piece(const SparseTensor& tensor, const std::function<void(ByteView)>& use);

}  // namespace cairn
