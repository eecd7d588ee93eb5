#include "optim/format_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

namespace cairn {

std::optional<double> find_number(const Value& value) {
  if (value.kind() == Kind::kInt || value.kind() == Kind::kFloat) return value.as_float();
  if (!value.is_tensor() || value.as_tensor().numel() != 1) return std::nullopt;
  const at::Tensor tensor = tensor_of(value.as_tensor());
  if (tensor.is_complex()) return std::nullopt;
  return tensor.to(at::kDouble).item<double>();
}

// --- Groups
// ---------------------------------------------------------------------------------------

const Value* GroupReader::take(const char* key) {
  taken_.insert(key);
  return saved_.find(key);
}

const Value* GroupReader::require(const char* key) {
  const Value* value = take(key);
  if (value == nullptr) misfits_.push_back(fmt::format("{}: \"{}\" is missing", where_, key));
  return value;
}

void GroupReader::wrong(const char* key, const char* wanted, const Value& found) {
  misfits_.push_back(
      fmt::format("{}: \"{}\" must be {}, found {}", where_, key, wanted, found.type_name()));
}

void GroupReader::number(const char* key, double& target) {
  const Value* value = require(key);
  if (value == nullptr) return;
  const std::optional<double> number = find_number(*value);
  if (!number) return wrong(key, "a number", *value);
  target = *number;
}

void GroupReader::flag(const char* key, bool& target) {
  const Value* value = require(key);
  if (value == nullptr) return;
  if (value->kind() != Kind::kBool) return wrong(key, "a bool", *value);
  target = value->as_bool();
}

void GroupReader::betas(const char* key, std::array<double, 2>& target) {
  const Value* value = require(key);
  if (value == nullptr) return;
  if (!(value->is_tuple() || value->is_list()) || value->as_items().size() != 2) {
    return wrong(key, "a tuple of two numbers", *value);
  }
  const std::optional<double> beta1 = find_number(value->as_items()[0]);
  const std::optional<double> beta2 = find_number(value->as_items()[1]);
  if (!beta1 || !beta2) return wrong(key, "a tuple of two numbers", *value);
  target = {*beta1, *beta2};
}

void GroupReader::betas(const char* key, std::tuple<double, double>& target) {
  std::array<double, 2> numbers = {std::get<0>(target), std::get<1>(target)};
  betas(key, numbers);
  target = {numbers[0], numbers[1]};
}

void GroupReader::python_only(const char* key, const Value& /*default_value*/) {
  const Value* value = take(key);
  if (value != nullptr) extras_.python_only.set(key, *value);
}

void GroupReader::must_be(const char* key, bool wanted) {
  const Value* value = take(key);
  if (value == nullptr) return;
  if (value->kind() != Kind::kBool) return wrong(key, "a bool", *value);
  if (value->as_bool() != wanted) {
    throw UnsupportedError(fmt::format(
        "the saved optimizer was used with {0}={1}, which libtorch's does not have: training would "
        "continue differently. Only {0}={2} can be loaded",
        key, value->as_bool() ? "True" : "False", wanted ? "True" : "False"));
  }
  extras_.python_only.set(key, *value);
}

GroupExtras GroupReader::extras() {
  if (const Value* value = take("initial_lr")) {
    extras_.initial_lr = find_number(*value);
    if (!extras_.initial_lr) wrong("initial_lr", "a number", *value);
  }
  for (const auto& [key, value] : saved_) {
    if (!key.is_str() || !taken_.contains(key.as_str())) extras_.python_only.set(key, value);
  }
  return std::move(extras_);
}

// --- States
// ---------------------------------------------------------------------------------------

const Value* StateReader::take(const char* key) {
  taken_.insert(key);
  return source_.saved.find(key);
}

void StateReader::wrong(const char* key, const std::string& what) {
  misfits_.push_back(fmt::format("\"{}\": \"{}\" {}", source_.name, key, what));
}

void StateReader::step(const char* key, std::int64_t& target) {
  const Value* value = take(key);
  if (value == nullptr) return wrong(key, "is missing");
  const std::optional<double> number = find_number(*value);
  if (!number || *number < 0 || *number != std::floor(*number) || *number > 0x1p53) {
    return wrong(key, "must be a whole number");
  }
  target = static_cast<std::int64_t>(*number);
}

void StateReader::tensor_if(bool required, const char* key, at::Tensor& target) {
  const Value* value = take(key);
  if (value != nullptr) return read(key, *value, target);
  if (required) wrong(key, "is missing");
}

void StateReader::tensor_or_none(const char* key, at::Tensor& target) {
  const Value* value = take(key);
  if (value == nullptr) return wrong(key, "is missing");
  if (!value->is_none()) read(key, *value, target);
}

// As Python does: on the parameter's device and, where it is a float, in its dtype.
void StateReader::read(const char* key, const Value& value, at::Tensor& target) {
  if (!value.is_tensor()) return wrong(key, fmt::format("is a {}, no tensor", value.type_name()));
  const TensorView& view = value.as_tensor();
  const at::Tensor& parameter = source_.parameter;
  if (parameter.sizes().vec() != view.shape) {
    return wrong(key, fmt::format("has shape [{}], its parameter has [{}]",
                                  fmt::join(view.shape, ", "), fmt::join(parameter.sizes(), ", ")));
  }
  const at::Tensor read = tensor_of(view, /*share=*/true);
  const at::ScalarType dtype =
      parameter.is_floating_point() ? parameter.scalar_type() : read.scalar_type();
  target = at::empty_like(parameter, parameter.options().dtype(dtype).requires_grad(false));
  target.copy_(read);
}

void StateReader::refuse_the_rest() {
  for (const auto& [key, value] : source_.saved) {
    if (key.is_str() && taken_.contains(key.as_str())) continue;
    misfits_.push_back(fmt::format("\"{}\": this optimizer has no \"{}\"", source_.name,
                                   key.is_str() ? key.as_str() : key.type_name()));
  }
}

}  // namespace cairn
