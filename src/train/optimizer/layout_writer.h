// Writes an optimizer's groups and states in the form of Python's state_dict().
#pragma once

#include <torch/torch.h>

#include <vector>

#include "cairn/train/optimizer_layout.h"

namespace cairn {

// A value that equals the value in the last loaded file is written in the form that it has in that
// file: an int, a tensor, a list.
class GroupWriter final : public GroupFields {
 public:
  GroupWriter(Dict& group, const Dict& loaded) : group_(group), loaded_(loaded) {}

  using GroupFields::pair;
  void whole(const char* key, std::int64_t& value) override { group_.set(key, value); }
  void flag(const char* key, bool& value) override { group_.set(key, value); }
  void newer_flag(const char* key, bool& value) override { group_.set(key, value); }
  void text_or_none(const char* key, std::optional<std::string>& value) override;
  void pair(const char* key, std::array<double, 2>& values, const Value& python_default) override;
  void pair(const char* key, std::pair<std::optional<double>, double>& values) override;
  void python_only(const char* key, const Value& value) override;
  void must_be(const char* key, bool wanted) override { group_.set(key, wanted); }
  void must_be_if_present(const char* /*key*/, bool /*wanted*/) override {}

  void flag_if_present(const char* /*key*/) override {}

  // Call it last. Writes "initial_lr", and entries of the file that the layout does not name.
  void write_rest(std::optional<double> initial_lr);

 private:
  void visit(const char* key, double& value, std::optional<std::int64_t> as_int) override;
  Value pair_of(const char* key, List items, const Value& python_default) const;

  Dict& group_;
  const Dict& loaded_;
};

// Whether this number of steps is written as a float32, as in PyTorch. A float32 counts up to 2^24.
// Larger numbers are written as a float64, which PyTorch also accepts.
inline bool is_exact_step(std::int64_t steps) { return steps <= std::int64_t{1} << 24; }

class StateWriter final : public StateFields {
 public:
  StateWriter(Dict& state, const at::Tensor& parameter, const std::vector<at::Tensor>& group)
      : state_(state), parameter_(parameter), group_(group) {}

  const at::Tensor& parameter() const override { return parameter_; }
  const std::vector<at::Tensor>& group() const override { return group_; }

  using StateFields::scalar;
  using StateFields::tensor;
  void tensor(const char* key, at::Tensor& value, const TensorField& field) override;
  void tensors(const char* key, std::optional<std::vector<at::Tensor>>& values,
               const TensorField& field) override;
  void scalar(const char* key, at::Tensor& value, bool required) override;
  void step(const char* key, std::int64_t& value) override;
  void count(const char* key, std::int64_t& value) override { state_.set(key, value); }
  void number(const char* key, std::optional<double>& value) override;

 private:
  Dict& state_;
  const at::Tensor& parameter_;
  const std::vector<at::Tensor>& group_;
};

}  // namespace cairn
