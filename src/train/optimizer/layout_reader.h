// Reads Python's state into an optimizer's groups and states.
#pragma once

#include <torch/torch.h>

#include <set>
#include <string>
#include <vector>

#include "cairn/train/optimizer_layout.h"

#include "train/optimizer/state_format.h"

namespace cairn {

class GroupReader final : public GroupFields {
 public:
  GroupReader(const GroupSource& source, std::vector<std::string>& misfits)
      : saved_(source.saved), where_(source.where), misfits_(misfits) {}

  using GroupFields::pair;
  void whole(const char* key, std::int64_t& value) override;
  void flag(const char* key, bool& value) override;
  void newer_flag(const char* key, bool& value) override;
  void text_or_none(const char* key, std::optional<std::string>& value) override;
  void pair(const char* key, std::array<double, 2>& values, const Value& python_default) override;
  void pair(const char* key, std::pair<std::optional<double>, double>& values) override;
  void python_only(const char* /*key*/, const Value& /*value*/) override {}
  void must_be(const char* key, bool wanted) override;
  void must_be_if_present(const char* key, bool wanted) override { must_be(key, wanted); }

  void flag_if_present(const char* key) override { must_be_bool(key); }

  // Call it last. Returns "initial_lr" and the whole saved group.
  GroupExtras extras();

 private:
  void visit(const char* key, double& value, std::optional<std::int64_t> as_int) override;
  const Value* require(const char* key);
  // The two items of a tuple or list. For anything else adds a misfit and returns nullptr.
  const List* require_pair(const char* key);
  const Value* must_be_bool(const char* key);  // Nullptr if absent, or not a bool.
  void add_misfit(const char* key, const char* wanted, const Value& found);

  const Dict& saved_;
  std::string where_;
  std::vector<std::string>& misfits_;
};

class StateReader final : public StateFields {
 public:
  StateReader(const StateSource& source, std::vector<std::string>& misfits)
      : source_(source), misfits_(misfits) {}

  const at::Tensor& parameter() const override { return source_.parameter; }
  const std::vector<at::Tensor>& group() const override { return source_.group; }

  using StateFields::scalar;
  using StateFields::tensor;
  void tensor(const char* key, at::Tensor& value, const TensorField& field) override;
  void tensors(const char* key, std::optional<std::vector<at::Tensor>>& values,
               const TensorField& field) override;
  void scalar(const char* key, at::Tensor& value, bool required) override;
  void step(const char* key, std::int64_t& value) override;
  void count(const char* key, std::int64_t& value) override { step(key, value); }
  void number(const char* key, std::optional<double>& value) override;

  // Call it last. Adds a misfit for each entry that was not read: such an entry belongs to another
  // optimizer.
  void refuse_the_rest();

 private:
  const Value* take(const char* key);
  void read(const std::string& key, const Value& value, at::Tensor& target,
            const TensorField& field);
  void add_misfit(const std::string& key, const std::string& what);

  const StateSource& source_;
  std::vector<std::string>& misfits_;
  std::set<std::string> taken_;
};

}  // namespace cairn
