#include "train/optimizer/layout_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <memory>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "train/state/device/device_storage.h"
#include "train/state/device/tensor_bridge.h"
#include "train/state/number.h"

namespace cairn {
namespace {

// A count as Python may hold it: an int, a float, or a tensor of one element.
std::optional<std::int64_t> find_count(const Value& value) {
  const std::optional<double> number = find_number(value);
  if (!number || *number < 0 || *number != std::floor(*number) || *number > 0x1p53) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*number);
}

}  // namespace

// --- Groups
// ---------------------------------------------------------------------------------------

const Value* GroupReader::require(const char* key) {
  const Value* value = saved_.find(key);
  if (value == nullptr) misfits_.push_back(fmt::format("{}: \"{}\" is missing", where_, key));
  return value;
}

void GroupReader::add_misfit(const char* key, const char* wanted, const Value& found) {
  misfits_.push_back(
      fmt::format("{}: \"{}\" must be {}, found {}", where_, key, wanted, found.type_name()));
}

void GroupReader::visit(const char* key, double& value, std::optional<std::int64_t> /*as_int*/) {
  const Value* saved = require(key);
  if (saved == nullptr) return;
  const std::optional<double> number = find_number(*saved);
  if (!number) return add_misfit(key, "a number", *saved);
  value = *number;
}

void GroupReader::whole(const char* key, std::int64_t& value) {
  const Value* saved = require(key);
  if (saved == nullptr) return;
  const std::optional<std::int64_t> count = find_count(*saved);
  if (!count) return add_misfit(key, "a whole number", *saved);
  value = *count;
}

void GroupReader::flag(const char* key, bool& value) {
  if (require(key) != nullptr) newer_flag(key, value);
}

void GroupReader::newer_flag(const char* key, bool& value) {
  const Value* saved = must_be_bool(key);
  if (saved != nullptr) value = saved->as_bool();
}

const Value* GroupReader::must_be_bool(const char* key) {
  const Value* saved = saved_.find(key);
  if (saved == nullptr || saved->kind() == Kind::kBool) return saved;
  add_misfit(key, "a bool", *saved);
  return nullptr;
}

void GroupReader::text_or_none(const char* key, std::optional<std::string>& value) {
  const Value* saved = require(key);
  if (saved == nullptr) return;
  if (!saved->is_none() && !saved->is_str()) return add_misfit(key, "a str or None", *saved);
  value = saved->is_none() ? std::nullopt : std::optional(saved->as_str());
}

const List* GroupReader::require_pair(const char* key) {
  const Value* saved = require(key);
  if (saved == nullptr) return nullptr;
  if ((saved->is_tuple() || saved->is_list()) && saved->as_items().size() == 2) {
    return &saved->as_items();
  }
  add_misfit(key, "a tuple of two numbers", *saved);
  return nullptr;
}

void GroupReader::pair(const char* key, std::array<double, 2>& values,
                       const Value& /*python_default*/) {
  const List* items = require_pair(key);
  if (items == nullptr) return;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::optional<double> number = find_number((*items)[i]);
    if (!number) return add_misfit(key, "a tuple of two numbers", (*items)[i]);
    values[i] = *number;
  }
}

void GroupReader::pair(const char* key, std::pair<std::optional<double>, double>& values) {
  const List* items = require_pair(key);
  if (items == nullptr) return;
  const std::optional<double> first = find_number(items->front());
  const std::optional<double> second = find_number(items->back());
  if ((!first && !items->front().is_none()) || !second) {
    return add_misfit(key, "a tuple of a number or None and a number", *saved_.find(key));
  }
  values = {first, *second};
}

void GroupReader::must_be(const char* key, bool wanted) {
  bool found = wanted;
  newer_flag(key, found);
  if (found == wanted) return;
  throw UnsupportedError(fmt::format(
      "the saved optimizer was used with {0}={1}, which this optimizer does not have in C++: "
      "training would continue differently. Only {0}={2} can be loaded",
      key, found ? "True" : "False", wanted ? "True" : "False"));
}

GroupExtras GroupReader::extras() {
  GroupExtras extras;
  if (const Value* value = saved_.find("initial_lr")) {
    extras.initial_lr = find_number(*value);
    if (!extras.initial_lr) add_misfit("initial_lr", "a number", *value);
  }
  // Copy tensors, so that they do not keep a whole file in memory. Tensors that share bytes share
  // them in the copies, too.
  std::map<const Storage*, std::shared_ptr<const Storage>> copies;
  for (const auto& [key, value] : saved_) {
    if (key.is_str() && key.as_str() == "params") continue;
    if (!value.is_tensor() || value.as_tensor().storage == nullptr) {
      extras.loaded.set(key, value);
      continue;
    }
    TensorView tensor = value.as_tensor();
    std::shared_ptr<const Storage>& copy = copies[tensor.storage.get()];
    if (copy == nullptr) {
      const auto bytes = std::make_shared<std::vector<std::byte>>(tensor.storage->size());
      tensor.storage->read_into(0, *bytes);
      copy = storage_of({*bytes, bytes}, tensor.storage->location());
    }
    tensor.storage = copy;
    extras.loaded.set(key, std::move(tensor));
  }
  return extras;
}

// --- States
// ---------------------------------------------------------------------------------------

const Value* StateReader::take(const char* key) {
  taken_.insert(key);
  return source_.saved.find(key);
}

void StateReader::add_misfit(const std::string& key, const std::string& what) {
  misfits_.push_back(fmt::format("\"{}\": \"{}\" {}", source_.name, key, what));
}

void StateReader::step(const char* key, std::int64_t& value) {
  const Value* saved = take(key);
  if (saved == nullptr) return add_misfit(key, "is missing");
  const std::optional<std::int64_t> count = find_count(*saved);
  if (!count) return add_misfit(key, "must be a whole number");
  value = *count;
}

void StateReader::number(const char* key, std::optional<double>& value) {
  const Value* saved = take(key);
  if (saved == nullptr) return;
  value = find_number(*saved);
  if (!value) add_misfit(key, "must be a number");
}

// Python's numbers become tensors of PyTorch's default dtype, as PyTorch does it.
void StateReader::scalar(const char* key, at::Tensor& value, bool required) {
  const Value* saved = take(key);
  if (saved == nullptr) {
    if (required) add_misfit(key, "is missing");
    return;
  }
  const std::optional<double> number = find_number(*saved);
  if (!number) return add_misfit(key, "must be a number");
  const at::ScalarType dtype = saved->is_tensor() ? tensor_of(saved->as_tensor()).scalar_type()
                                                  : torch::get_default_dtype_as_scalartype();
  value = torch::scalar_tensor(*number, dtype);
}

void StateReader::tensor(const char* key, at::Tensor& value, const TensorField& field) {
  const Value* saved = take(key);
  if (saved == nullptr) {
    if (field.required) add_misfit(key, "is missing");
  } else if (!(field.or_none && saved->is_none())) {
    read(key, *saved, value, field);
  }
}

void StateReader::tensors(const char* key, std::optional<std::vector<at::Tensor>>& values,
                          const TensorField& field) {
  const Value* saved = take(key);
  if (saved == nullptr) return;
  if (!saved->is_list())
    return add_misfit(key, fmt::format("is a {}, not a list", saved->type_name()));
  values.emplace();
  for (const Value& item : saved->as_items()) {
    values->emplace_back();
    const std::string name = fmt::format("{}[{}]", key, values->size() - 1);
    if (!item.is_none()) read(name, item, values->back(), field);
  }
}

// As in Python, `target` is on the parameter's device. If the parameter is floating-point, `target`
// has the parameter's dtype.
void StateReader::read(const std::string& key, const Value& value, at::Tensor& target,
                       const TensorField& field) {
  if (!value.is_tensor())
    return add_misfit(key, fmt::format("is a {}, not a tensor", value.type_name()));
  const TensorView& view = value.as_tensor();
  const at::Tensor& parameter = source_.parameter;
  const at::IntArrayRef shape = field.shape ? at::IntArrayRef(*field.shape) : parameter.sizes();
  if (!std::ranges::equal(shape, view.shape)) {
    return add_misfit(
        key, fmt::format("has shape [{}], {} [{}]", fmt::join(view.shape, ", "),
                         field.shape ? "expected" : "its parameter has", fmt::join(shape, ", ")));
  }
  const at::Tensor read = near_tensor_of(view);
  const at::ScalarType dtype =
      parameter.is_floating_point() ? parameter.scalar_type() : read.scalar_type();
  const at::TensorOptions options = parameter.options().dtype(dtype).requires_grad(false);
  const bool is_in_order = field.shape || !parameter.is_non_overlapping_and_dense()
                               ? read.is_contiguous()
                               : read.strides() == parameter.strides();
  const bool is_whole =
      read.storage_offset() == 0 && read.storage().resizable() &&
      read.storage().nbytes() == static_cast<std::size_t>(read.numel() * read.element_size());
  if (is_in_order && is_whole && read.dtype() == options.dtype() &&
      read.device() == parameter.device()) {
    target = read;
    source_.shared.push_back(read);
    return;
  }
  target = field.shape ? at::empty(*field.shape, options) : at::empty_like(parameter, options);
  if (DeviceUploads::takes(target, read)) return source_.uploads.add(target, read);
  const torch::NoGradGuard no_grad;
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
