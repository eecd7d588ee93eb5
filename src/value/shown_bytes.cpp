#include "value/shown_bytes.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "cairn/sparse_tensor.h"

#include "value/children.h"

namespace cairn {
namespace {

constexpr std::uint64_t kSaturated = std::numeric_limits<std::uint64_t>::max();

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return a > kSaturated - b ? kSaturated : a + b;
}

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > kSaturated / b ? kSaturated : a * b;
}

std::uint64_t dense_size(const Dims& shape, DType dtype) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::uint64_t bytes = item_size(dtype);
  for (const std::int64_t size : shape) {
    bytes = times(bytes, static_cast<std::uint64_t>(size));
  }
  return bytes / elements_per_byte(dtype);
}

class ShownBytes {
 public:
  // Trees are at most a thousand levels deep.
  std::uint64_t of(const Value& value) {
    const bool has_parts = value.is_dict() || value.is_list() || value.is_tuple() ||
                           value.kind() == Kind::kSet || value.is_foreign();
    if (!has_parts || value.identity() == nullptr || !value.may_be_shared()) return of_new(value);
    const auto known = known_.find(value.identity());
    if (known != known_.end()) return known->second;
    return known_.emplace(value.identity(), of_new(value)).first->second;
  }

 private:
  std::uint64_t of_new(const Value& value) {
    switch (value.kind()) {
      case Kind::kStr:
        return value.as_str().size();
      case Kind::kBytes:
        return value.as_bytes().data.size();
      case Kind::kTensor:
        return dense_size(value.as_tensor().shape, value.as_tensor().dtype);
      case Kind::kNdArray:
        return value.as_ndarray().bytes.view.size();
      case Kind::kSparse:
        return of_sparse(value.as_sparse());
      default:
        return of_children(value);
    }
  }

  std::uint64_t of_children(const Value& value) {
    std::uint64_t bytes = 0;
    for_each_child(value, [&](const Value& child) { bytes = sum(bytes, of(child)); });
    return bytes;
  }

  static std::uint64_t of_sparse(const SparseTensor& tensor) {
    std::uint64_t bytes =
        is_dense_form_in_proportion(tensor) ? dense_size(tensor.shape, tensor.dtype()) : 0;
    for (const auto& [name, part] : parts_of(tensor)) {
      bytes = sum(bytes, dense_size(part->shape, part->dtype));
    }
    return bytes;
  }

  std::unordered_map<const void*, std::uint64_t> known_;  // of values at several places
};

}  // namespace

std::uint64_t shown_bytes(const Value& root) { return ShownBytes().of(root); }

}  // namespace cairn
