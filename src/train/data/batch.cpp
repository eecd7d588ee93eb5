#include "cairn/train/batch.h"

#include <algorithm>

#include "cairn/error.h"

namespace cairn {
namespace {

std::string describe(const Batch& batch) {
  if (!batch.is_named()) return std::to_string(batch.size()) + " tensors by position";
  std::string text = "tensors named";
  for (const std::string& name : batch.names())
    text += " '" + name + "'";
  return text;
}

}  // namespace

Batch Batch::named(const std::vector<std::pair<std::string, at::Tensor>>& items) {
  Batch result;
  for (const auto& [name, tensor] : items) {
    if (std::ranges::find(result.names_, name) != result.names_.end()) {
      throw UsageError("a batch has two tensors named '" + name + "'; names must differ");
    }
    result.names_.push_back(name);
    result.tensors_.push_back(tensor);
  }
  return result;
}

const at::Tensor& Batch::operator[](std::size_t i) const {
  if (i < tensors_.size()) return tensors_[i];
  throw UsageError("there is no tensor " + std::to_string(i) + " in a batch of " + describe(*this));
}

at::Tensor& Batch::operator[](std::size_t i) {
  return const_cast<at::Tensor&>(std::as_const(*this)[i]);
}

const at::Tensor* Batch::find(std::string_view name) const {
  const auto at = std::ranges::find(names_, name);
  return at == names_.end() ? nullptr : &tensors_[static_cast<std::size_t>(at - names_.begin())];
}

const at::Tensor& Batch::operator[](std::string_view name) const {
  if (const at::Tensor* found = find(name)) return *found;
  throw UsageError("there is no tensor '" + std::string(name) + "' in a batch of " +
                   describe(*this));
}

at::Tensor& Batch::operator[](std::string_view name) {
  return const_cast<at::Tensor&>(std::as_const(*this)[name]);
}

const at::Tensor& Batch::single() const {
  if (tensors_.size() == 1) return tensors_[0];
  throw UsageError("expected a single tensor, found " + describe(*this));
}

}  // namespace cairn
