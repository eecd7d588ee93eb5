#include "value/tensor/tensor_part.h"

#include "cairn/error.h"

namespace cairn {
namespace {

std::string sizes_text(const Dims& sizes) {
  std::string text = "(";
  for (const std::int64_t size : sizes) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + ")";
}

}  // namespace

std::string part_text(const TensorView& tensor) {
  return sizes_text(tensor.shape) + " at " + sizes_text(tensor.part->offsets) + " of " +
         sizes_text(tensor.part->global_shape);
}

void check_is_whole(const TensorView& tensor, const char* what) {
  if (tensor.part == nullptr) return;
  throw UnsupportedError("a part of a tensor, " + part_text(tensor) + ", cannot be written to " +
                         what +
                         ", which does not say where a part belongs; write a "
                         "torch.distributed.checkpoint folder, or reset `part` to save the "
                         "elements alone");
}

bool equal_parts(const TensorView& a, const TensorView& b) {
  if (a.part == nullptr || b.part == nullptr) return a.part == b.part;
  return *a.part == *b.part;
}

}  // namespace cairn
