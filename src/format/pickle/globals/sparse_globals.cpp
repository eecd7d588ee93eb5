// PyTorch's functions for sparse tensors.
#include <algorithm>
#include <array>
#include <iterator>

#include "cairn/error.h"

#include "format/pickle/globals/globals.h"

namespace cairn::pickle {
namespace {

constexpr std::string_view kCsrOf113 = "_rebuild_sparse_csr_tensor";  // only in PyTorch 1.13

// Handles _get_layout('torch.sparse_coo').
Ref get_layout(const Call& call) {
  call.expect_args(1, 1);
  const std::string_view layout = call.text(0);
  constexpr std::string_view kOthers[] = {"torch.strided", "torch._mkldnn", "torch.jagged"};
  if (!find_layout(layout) &&
      std::find(std::begin(kOthers), std::end(kOthers), layout) == std::end(kOthers)) {
    throw UnsupportedError("cairn does not know the layout " + std::string(layout.substr(0, 40)));
  }
  return call.graph.add(Value(TorchConstant{std::string(layout)}));
}

// Returns the name of a layout, which may be given as a text or as a layout itself.
std::string_view layout_argument(const Call& call, std::size_t i) {
  const auto* value = call.graph.find<Value>(call.arg(i));
  const auto* constant = value == nullptr ? nullptr : value->get_if<TorchConstant>();
  return constant == nullptr ? call.text(i) : std::string_view(constant->name);
}

// Returns the argument, a torch.Size or a tuple of ints.
Dims size_argument(const Call& call, std::size_t i) {
  const auto* value = call.graph.find<Value>(call.arg(i));
  if (value != nullptr && value->get_if<Size>() != nullptr) return value->get_if<Size>()->dims;
  return call.integers(i);
}

// For COO. `parts` is (indices, values, size[, is_coalesced]).
void set_coo(const Call& parts, SparseTensor& tensor) {
  parts.expect_args(3, 4);
  tensor.indices = dense_argument(parts, 0);
  tensor.values = dense_argument(parts, 1);
  tensor.shape = size_argument(parts, 2);
  const bool has_is_coalesced = parts.args.size() == 4 && !parts.arg(3).is_none();
  if (has_is_coalesced) tensor.is_coalesced = parts.boolean(3);
}

// For the other layouts. `parts` is (compressed indices, plain indices, values, size).
void set_compressed(const Call& parts, SparseTensor& tensor) {
  parts.expect_args(4, 4);
  tensor.compressed_indices = dense_argument(parts, 0);
  tensor.indices = dense_argument(parts, 1);
  tensor.values = dense_argument(parts, 2);
  tensor.shape = size_argument(parts, 3);
}

// Returns the layout with this number in libtorch.
Layout numbered_layout(const Call& call, std::int64_t number) {
  switch (number) {
    case 1:
      return Layout::kSparseCoo;
    case 2:
      return Layout::kSparseCsr;
    case 4:
      return Layout::kSparseCsc;
    case 5:
      return Layout::kSparseBsr;
    case 6:
      return Layout::kSparseBsc;
    default:
      call.fail("layout " + std::to_string(number) + " is not a sparse layout");
  }
}

// Handles what C++ writes: (number of the layout, size, requires_grad, parts..., hooks).
Ref rebuild_sparse_of_script(const Call& call) {
  SparseTensor tensor{.layout = numbered_layout(call, call.integer(0))};
  const bool is_coo = tensor.layout == Layout::kSparseCoo;
  call.expect_args(is_coo ? 6 : 7, is_coo ? 6 : 7);
  tensor.shape = size_argument(call, 1);
  tensor.requires_grad = call.boolean(2);
  if (!is_coo) tensor.compressed_indices = dense_argument(call, 3);
  tensor.indices = dense_argument(call, is_coo ? 3 : 4);
  tensor.values = dense_argument(call, is_coo ? 4 : 5);
  check_structure(tensor);
  return call.graph.add(Value(std::move(tensor)));
}

// Handles _rebuild_sparse_tensor(layout, parts).
Ref rebuild_sparse(const Call& call) {
  if (call.graph.integer(call.arg(0))) return rebuild_sparse_of_script(call);
  call.expect_args(2, 2);
  const std::string_view layout_name = layout_argument(call, 0);
  const auto layout = find_layout(layout_name);
  if (!layout) {
    throw UnsupportedError("cairn does not read sparse tensors of layout " +
                           std::string(layout_name.substr(0, 40)));
  }
  SparseTensor tensor{.layout = *layout};
  tensor.is_csr_of_113 = *layout == Layout::kSparseCsr && call.global.name == kCsrOf113;
  const Call parts{call.graph, call.storages, call.global, call.items(1)};
  if (*layout == Layout::kSparseCoo) {
    set_coo(parts, tensor);
  } else {
    set_compressed(parts, tensor);
  }
  tensor.requires_grad = tensor.values.requires_grad;
  check_structure(tensor);
  return call.graph.add(Value(std::move(tensor)));
}

constexpr std::array kSparseGlobals = {
    Global{"torch.serialization", "_get_layout", get_layout},
    Global{"torch._utils", "_rebuild_sparse_tensor", rebuild_sparse},
    Global{"torch._utils", kCsrOf113, rebuild_sparse},
};

}  // namespace

std::span<const Global> sparse_globals() { return kSparseGlobals; }

}  // namespace cairn::pickle
