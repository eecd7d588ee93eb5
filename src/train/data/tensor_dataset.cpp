#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/data.h"

#include "train/data/batch_memory.h"

namespace cairn {
namespace {

class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(Batch tensors) : tensors_(std::move(tensors)) {
    if (tensors_.empty()) throw UsageError("tensor_dataset() needs at least one tensor");
    for (const at::Tensor& tensor : tensors_.tensors()) {
      if (tensor.dim() == 0 || tensor.size(0) != tensors_.tensors()[0].size(0)) {
        throw UsageError("the tensors of tensor_dataset() must have one length in dimension 0");
      }
    }
  }

  std::int64_t size() const override { return tensors_.tensors()[0].size(0); }

  Batch get_batch(std::span<const std::int64_t> indices) const override {
    const torch::NoGradGuard no_grad;
    // index_select only reads the indices, but from_blob has no const form.
    const at::Tensor rows = at::from_blob(const_cast<std::int64_t*>(indices.data()),
                                          {static_cast<std::int64_t>(indices.size())}, at::kLong);
    return tensors_.map([&](const at::Tensor& tensor) {
      if (!fits_batch_memory(tensor)) return tensor.index_select(0, rows.to(tensor.device()));
      std::vector<std::int64_t> sizes = tensor.sizes().vec();
      sizes[0] = rows.size(0);
      at::Tensor selected = empty_for_batch(sizes, tensor.scalar_type());
      at::index_select_out(selected, tensor, 0, rows);
      return selected;
    });
  }

 private:
  Batch tensors_;
};

}  // namespace

std::shared_ptr<Dataset> tensor_dataset(Batch tensors) {
  return std::make_shared<TensorDataset>(std::move(tensors));
}

}  // namespace cairn
