// Looks at the fields of an optimizer's state that the layout describes.
#pragma once

#include <torch/torch.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "cairn/train/optimizer_layout.h"

#include "train/optimizer/layout_writer.h"
#include "train/optimizer/state_format.h"

namespace cairn {

enum class FieldKind : std::uint8_t {
  kNone,
  kTensor,
  kStep,      // Stored as a float32.
  kLongStep,  // Stored as a float64.
  kCount,
  kNumber,
  kOther,  // Not compared.
};

// The fields that a state's layout describes, in the order in which StateWriter writes them.
class FieldVisitor : public StateFields {
 public:
  struct Field {
    const char* key;
    FieldKind kind;
    const at::Tensor* tensor = nullptr;  // For kTensor.
    std::int64_t number = 0;             // For the other kinds; the bits of a float.
  };

  FieldVisitor(const at::Tensor& parameter, const std::vector<at::Tensor>& group)
      : parameter_(parameter), group_(group) {}

  const at::Tensor& parameter() const override { return parameter_; }
  const std::vector<at::Tensor>& group() const override { return group_; }

  using StateFields::scalar;
  using StateFields::tensor;
  void tensor(const char* key, at::Tensor& value, const TensorField& field) override {
    if (value.defined()) {
      look({key, FieldKind::kTensor, &value});
    } else if (field.or_none) {
      look({key, FieldKind::kNone});
    }
  }
  void tensors(const char* key, std::optional<std::vector<at::Tensor>>& values,
               const TensorField& /*field*/) override {
    if (values) look({key, FieldKind::kOther});
  }
  void scalar(const char* key, at::Tensor& value, bool /*required*/) override {
    if (!value.defined()) return;
    look({key, value.dim() == 0 ? FieldKind::kTensor : FieldKind::kOther, &value});
  }
  void step(const char* key, std::int64_t& value) override {
    look({key, is_exact_step(value) ? FieldKind::kStep : FieldKind::kLongStep, nullptr, value});
  }
  void count(const char* key, std::int64_t& value) override {
    look({key, FieldKind::kCount, nullptr, value});
  }
  void number(const char* key, std::optional<double>& value) override {
    if (value) look({key, FieldKind::kNumber, nullptr, std::bit_cast<std::int64_t>(*value)});
  }

 private:
  virtual void look(const Field& field) = 0;

  const at::Tensor& parameter_;
  const std::vector<at::Tensor>& group_;
};

// Visits the state as write_state() does. Visits a copy, because a layout's describe functions may
// write.
inline void visit_state_copy(const OptimizerLayout& layout, const LiveState& state,
                             FieldVisitor& look) {
  layout.visit_state(look, *state.values.clone(), state.group.options());
}

}  // namespace cairn
