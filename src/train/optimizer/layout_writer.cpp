#include "train/optimizer/layout_writer.h"

#include "cairn/train/state_dict.h"

#include "train/state/number.h"

namespace cairn {
namespace {

// A number in the form that the file had. A tensor stays a tensor (Adam(lr=tensor)), with the same
// dtype if that dtype holds the number.
Value in_form(const Value& loaded, double value, const Value& otherwise) {
  if (find_number(loaded) == value) return loaded;
  if (!loaded.is_tensor()) return otherwise;
  const at::Tensor old = tensor_of(loaded.as_tensor());
  at::Tensor changed = torch::full(old.sizes(), value, old.options());
  if (changed.to(at::kDouble).min().item<double>() != value) {
    changed = torch::full(old.sizes(), value, at::kDouble);
  }
  return view_of(changed);
}

Value number_of(const Dict& loaded, const char* key, double value,
                std::optional<std::int64_t> as_int) {
  const bool is_default = as_int && static_cast<double>(*as_int) == value;
  const Value otherwise = is_default ? Value(*as_int) : Value(value);
  const Value* before = loaded.find(key);
  return before == nullptr ? otherwise : in_form(*before, value, otherwise);
}

}  // namespace

// --- Groups
// ---------------------------------------------------------------------------------------

void GroupWriter::visit(const char* key, double& value, std::optional<std::int64_t> as_int) {
  group_.set(key, number_of(loaded_, key, value, as_int));
}

void GroupWriter::text_or_none(const char* key, std::optional<std::string>& value) {
  group_.set(key, value ? Value(*value) : Value(None{}));
}

// The file's list or tuple, if it has the same numbers. Otherwise Python's default, if that has the
// same numbers.
Value GroupWriter::pair_of(const char* key, List items, const Value& python_default) const {
  const auto has_these = [&](const Value& pair) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Value& old = pair.as_items()[i];
      const bool same =
          items[i].is_none() ? old.is_none() : find_number(old) == items[i].as_float();
      if (!same) return false;
    }
    return true;
  };
  const Value* before = loaded_.find(key);
  if (before != nullptr && has_these(*before)) return *before;
  if (python_default.is_tuple() && has_these(python_default)) return python_default;
  return Tuple{std::move(items)};
}

void GroupWriter::pair(const char* key, std::array<double, 2>& values,
                       const Value& python_default) {
  group_.set(key, pair_of(key, {values[0], values[1]}, python_default));
}

void GroupWriter::pair(const char* key, std::pair<std::optional<double>, double>& values) {
  const Value first = values.first ? Value(*values.first) : Value(None{});
  group_.set(key, pair_of(key, {first, values.second}, None{}));
}

void GroupWriter::python_only(const char* key, const Value& value) {
  const Value* before = loaded_.find(key);
  group_.set(key, before != nullptr ? *before : value);
}

void GroupWriter::write_rest(std::optional<double> initial_lr) {
  for (const auto& [key, value] : loaded_) {
    if (group_.find(key) == nullptr && !(key.is_str() && key.as_str() == "initial_lr")) {
      group_.set(key, value);
    }
  }
  if (initial_lr) {
    group_.set("initial_lr", number_of(loaded_, "initial_lr", *initial_lr, std::nullopt));
  }
}

// --- States
// ---------------------------------------------------------------------------------------

void StateWriter::tensor(const char* key, at::Tensor& value, const TensorField& field) {
  if (value.defined()) {
    state_.set(key, view_of(value));
  } else if (field.or_none) {
    state_.set(key, None{});
  }
}

void StateWriter::tensors(const char* key, std::optional<std::vector<at::Tensor>>& values,
                          const TensorField& /*field*/) {
  if (!values) return;
  List items;
  for (const at::Tensor& value : *values) {
    items.push_back(value.defined() ? Value(view_of(value)) : Value(None{}));
  }
  state_.set(key, std::move(items));
}

void StateWriter::scalar(const char* key, at::Tensor& value, bool /*required*/) {
  if (value.defined()) state_.set(key, view_of(value.reshape({})));
}

void StateWriter::step(const char* key, std::int64_t& value) {
  state_.set(key, view_of(torch::scalar_tensor(static_cast<double>(value),
                                               is_exact_step(value) ? at::kFloat : at::kDouble)));
}

void StateWriter::number(const char* key, std::optional<double>& value) {
  if (value) state_.set(key, *value);
}

}  // namespace cairn
