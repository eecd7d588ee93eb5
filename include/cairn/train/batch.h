// Batch: what a data loader yields and a model takes. Also what a model gives back.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

// Tensors by position, like Python's (input, target), or by name, like {"input_ids": ...}. The
// first dimension of each is the sample: by it batches are counted and cut into microbatches,
// unless DataSpec says otherwise. Copies share the tensors' memory.
//
//   Batch{images, labels};   Batch::named({{"input_ids", ids}, {"labels", labels}});
//   batch[0];                batch["labels"];
class Batch {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  Batch() = default;
  Batch(at::Tensor single) : tensors_{std::move(single)} {}
  Batch(std::initializer_list<at::Tensor> tensors) : tensors_(tensors) {}
  Batch(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {}
  // NOLINTEND(google-explicit-constructor)
  // UsageError for a name that is there twice.
  static Batch named(const std::vector<std::pair<std::string, at::Tensor>>& items);

  std::size_t size() const { return tensors_.size(); }
  bool empty() const { return tensors_.empty(); }
  bool is_named() const { return !names_.empty(); }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  const std::vector<std::string>& names() const { return names_; }  // empty when by position

  // UsageError, saying what there is, for a position or name that is not there.
  at::Tensor& operator[](std::size_t i);
  const at::Tensor& operator[](std::size_t i) const;
  at::Tensor& operator[](std::string_view name);
  const at::Tensor& operator[](std::string_view name) const;
  const at::Tensor* find(std::string_view name) const;  // nullptr when it is not there

  // The only tensor; UsageError when there is not exactly one.
  const at::Tensor& single() const;

  // The same names with every tensor replaced by `change(tensor)`: moved, cast, cut.
  template <class Change>
  Batch map(Change change) const {
    Batch result = *this;
    for (at::Tensor& tensor : result.tensors_) {
      tensor = change(tensor);
    }
    return result;
  }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<std::string> names_;
};

// Of Model::forward: what Model::loss and the metrics take; one tensor of scores for a classifier.
using Outputs = Batch;
// Of Model::loss: one, several (their sum is trained), or named ("total" is then the one trained).
// Each is logged as loss/train/<name>.
using Losses = Batch;

}  // namespace cairn
