#include "saving/checkpoint_size.h"

#include <torch/torch.h>

#include <memory>
#include <unordered_set>

#include "cairn/train/optimizer_layout.h"
#include "cairn/train/state.h"

#include "train/optimizer/param_state.h"
#include "train/optimizer/state_format.h"

namespace cairn {
namespace {

std::uint64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.numel()) * tensor.element_size();
}

// Tensors that share memory (tied weights) are written once.
class WrittenBytes {
 public:
  void add(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    if (known_.insert(tensor.storage().unsafeGetStorageImpl()).second) bytes_ += bytes_of(tensor);
  }
  void add_expected(std::uint64_t bytes) { bytes_ += bytes; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::unordered_set<const void*> known_;
  std::uint64_t bytes_ = 0;
};

// Adds the tensors of a parameter's state, and the tensors that the first step will make.
class StateSize final : public StateFields {
 public:
  StateSize(WrittenBytes& written, const at::Tensor& parameter,
            const std::vector<at::Tensor>& group)
      : written_(written), parameter_(parameter), group_(group) {}

  const at::Tensor& parameter() const override { return parameter_; }
  const std::vector<at::Tensor>& group() const override { return group_; }

  using StateFields::scalar;
  using StateFields::tensor;
  void tensor(const char* /*key*/, at::Tensor& value, const TensorField& field) override {
    if (value.defined()) {
      written_.add(value);
    } else if (field.required && !field.or_none && !field.shape) {
      written_.add_expected(bytes_of(parameter_));
    }
  }
  void tensors(const char* /*key*/, std::optional<std::vector<at::Tensor>>& values,
               const TensorField& /*field*/) override {
    if (!values) return;
    for (const at::Tensor& value : *values)
      written_.add(value);
  }
  void scalar(const char* /*key*/, at::Tensor& /*value*/, bool /*required*/) override {}
  void step(const char* /*key*/, std::int64_t& /*value*/) override {}
  void count(const char* /*key*/, std::int64_t& /*value*/) override {}
  void number(const char* /*key*/, std::optional<double>& /*value*/) override {}

 private:
  WrittenBytes& written_;
  const at::Tensor& parameter_;
  const std::vector<at::Tensor>& group_;
};

void add_optimizer(WrittenBytes& written, const torch::optim::Optimizer& optimizer) {
  const OptimizerLayout* layout = find_layout(optimizer);
  if (layout == nullptr) return;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto* live = find_param_state(optimizer, parameter);
      if (live == nullptr && !parameter.requires_grad()) continue;  // No step changes it.
      const auto values = live == nullptr ? layout->make_state() : live->clone();
      StateSize size(written, parameter, group.params());
      layout->visit_state(size, *values, group.options());
    }
  }
}

}  // namespace

std::uint64_t least_checkpoint_bytes(const State& state, bool weights_only) {
  WrittenBytes written;
  if (state.model) {
    for (const at::Tensor& tensor : state.model->module().parameters())
      written.add(tensor);
  }
  if (!weights_only && state.optimizer) add_optimizer(written, *state.optimizer);
  return written.bytes();
}

}  // namespace cairn
