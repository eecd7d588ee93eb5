#include "checkpoint/open/saved_metrics.h"

#include <optional>
#include <vector>

#include "value/numbers.h"

namespace cairn {
namespace {

// Returns the DType for numpy's type code. Knows only the types that metrics have.
std::optional<DType> number_type(const std::string& code) {
  if (code == "f8") return DType::kFloat64;
  if (code == "f4") return DType::kFloat32;
  if (code == "f2") return DType::kFloat16;
  if (code == "i8") return DType::kInt64;
  if (code == "i4") return DType::kInt32;
  return std::nullopt;
}

std::optional<double> only_number(DType dtype, ByteView bytes) {
  if (bytes.size() != item_size(dtype)) return std::nullopt;
  std::vector<double> numbers;
  decode_numbers(dtype, bytes, numbers);
  return numbers.size() == 1 ? std::optional(numbers.front()) : std::nullopt;
}

// A computed metric is a scalar tensor. In Composer 0.16.0 it is a numpy array. Before the first
// evaluation it is None.
std::optional<double> metric_of(const Value& value) {
  if (value.is_tensor() && value.as_tensor().numel() == 1) {
    const SharedBytes bytes = value.as_tensor().contiguous_bytes();
    return only_number(value.as_tensor().dtype, bytes.view);
  }
  if (value.kind() == Kind::kNdArray) {
    const auto dtype = number_type(value.as_ndarray().dtype);
    return dtype ? only_number(*dtype, value.as_ndarray().bytes.view) : std::nullopt;
  }
  const auto* scalar = value.get_if<NumpyScalar>();
  if (scalar != nullptr) return metric_of(scalar->number());
  if (value.is_int() || value.kind() == Kind::kFloat) return value.as_float();
  return std::nullopt;
}

void add(const std::string& label, const Value* metrics, std::map<std::string, double>& all) {
  if (metrics == nullptr || !metrics->is_dict()) return;
  for (const auto& [name, metric] : metrics->as_dict()) {
    const Value* computed = metric.is_dict() ? metric.find("_computed") : nullptr;
    const auto number = computed == nullptr ? std::nullopt : metric_of(*computed);
    if (number && name.is_str()) all.emplace(label + "/" + name.as_str(), *number);
  }
}

}  // namespace

std::map<std::string, double> saved_metrics(const Value& checkpoint) {
  std::map<std::string, double> all;
  add("train", find_path(checkpoint, "state/train_metrics"), all);
  const Value* evaluators = find_path(checkpoint, "state/eval_metrics");
  if (evaluators == nullptr || !evaluators->is_dict()) return all;
  for (const auto& [label, metrics] : evaluators->as_dict()) {
    if (label.is_str()) add(label.as_str(), &metrics, all);
  }
  return all;
}

}  // namespace cairn
