// Batch: what a data loader yields and a model takes. Also what a model returns.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// Tensors by position, like Python's (input, target), or by name, like {"input_ids": ...}. The
// first dimension of each is the sample: it determines how batches are counted and cut into
// microbatches, unless DataSpec says otherwise. Copies share the tensors' memory.
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
  // Throws UsageError for a name that occurs twice.
  static Batch named(const std::vector<std::pair<std::string, at::Tensor>>& items);

  std::size_t size() const { return tensors_.size(); }
  bool empty() const { return tensors_.empty(); }
  bool is_named() const { return !names_.empty(); }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  // Empty if the tensors have no names
  const std::vector<std::string>& names() const { return names_; }

  // Throws UsageError, listing what there is, for a position or name that does not exist.
  at::Tensor& operator[](std::size_t i);
  const at::Tensor& operator[](std::size_t i) const;
  at::Tensor& operator[](std::string_view name);
  const at::Tensor& operator[](std::string_view name) const;
  const at::Tensor* find(std::string_view name) const;  // nullptr if it does not exist

  // The only tensor. Throws UsageError unless there is exactly one.
  const at::Tensor& single() const;

  // A batch with the same names in which each tensor is `change(tensor)`: moved, cast, cut.
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

// The result of Model::forward, which Model::loss and the metrics take. For a classifier: one
// tensor of scores.
using Outputs = Batch;
// The result of Model::loss: one loss, several (their sum is trained), or named ones (then "total"
// is trained). Each is logged as loss/train/<name>.
using Losses = Batch;

}  // namespace cairn
